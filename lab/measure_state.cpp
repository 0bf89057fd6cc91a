// W3: the state of linear attention position by position, with its bytes and those of a cache.
#include <memory>
#include <nlohmann/json.hpp>

#include "autograd/gradcheck.h"
#include "autograd/key_slots.h"
#include "lab/measure.h"
#include "nn/verify/show.h"

namespace linea::lab {
namespace {

constexpr int64_t kFilmSize = 16, kFrames = 24, kWide = 64, kPositions = 64;

attend::Inputs random_inputs(int64_t positions, int64_t size, DType dtype) {
  const auto normal = [&](uint32_t stream_id) {
    return random_tensor({1, 1, positions, size}, stream_id, 1.0, 0.0, dtype);
  };
  return {normal(1), normal(2), normal(3), {}, {}};
}

// The bytes of a head's state after each position; for a cache, of the keys and values it holds.
std::vector<double> bytes_of_states(const std::string& attention, int64_t positions, int64_t size) {
  const attend::Inputs in = random_inputs(positions, size, DType::f32);
  std::vector<double> bytes;
  attend::each_step(*attend::attention_for(in, {attention}), in,
                    [&](int64_t, const Tensor&, const AttentionState& state) {
                      auto count = static_cast<double>(state.bytes());
                      if (const auto* slots = dynamic_cast<const KeySlots*>(&state))
                        count *= static_cast<double>(std::ssize(slots->positions)) /
                                 static_cast<double>(slots->keys.size(2));
                      bytes.push_back(count);
                    });
  return bytes;
}

// The first position with more in the cache.
int64_t larger_from(const std::vector<double>& cache, const std::vector<double>& state) {
  size_t t = 0;
  while (t < cache.size() && cache[t] <= state[t]) ++t;
  return static_cast<int64_t>(t) + 1;
}

}  // namespace

nlohmann::ordered_json measure_state() {
  const attend::Inputs in = random_inputs(kFrames, kFilmSize, DType::f64);
  const std::vector<double> state = bytes_of_states("linear", kFrames, kFilmSize),
                            cache = bytes_of_states("softmax", kFrames, kFilmSize);
  nlohmann::ordered_json frames = nlohmann::ordered_json::array();
  attend::each_step(*attend::attention_for(in, {"linear"}), in,
                    [&](int64_t t, const Tensor&, const AttentionState& now) {
                      const std::vector<NamedTensor> parts = attend::parts_of(now, kFilmSize);
                      frames.push_back({{"S", rows_json(parts[0].tensor, 4)},
                                        {"z", rows_json(parts[1].tensor, 4)[0]},
                                        {"state_bytes", state[static_cast<size_t>(t)]},
                                        {"cache_bytes", cache[static_cast<size_t>(t)]}});
                    });
  nlohmann::ordered_json rows = rows_json(in.k, 4);
  const nlohmann::ordered_json values = rows_json(in.v, 4);
  for (size_t i = 0; i < rows.size(); ++i)
    rows[i].insert(rows[i].end(), values[i].begin(), values[i].end());
  const std::vector<double> wide_state = bytes_of_states("linear", kPositions, kWide),
                            wide_cache = bytes_of_states("softmax", kPositions, kWide);
  std::vector<int64_t> positions;
  for (int64_t t = 1; t <= kPositions; ++t) positions.push_back(t);
  return {{"command", "bytes() of the states of --attention linear and softmax, float32"},
          {"size", kFilmSize},
          {"larger_from", larger_from(cache, state)},
          {"frames", frames},
          {"cache", rows},
          {"wide",
           {{"size", kWide},
            {"positions", positions},
            {"state_bytes", wide_state},
            {"cache_bytes", wide_cache},
            {"larger_from", larger_from(wide_cache, wide_state)}}}};
}

}  // namespace linea::lab
