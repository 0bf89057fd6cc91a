#include "autograd/state_scan.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/error.h"
#include "tensor/element.h"

namespace linea {
namespace {

template <typename A>
struct States {
  std::vector<A> state, key_sum, scale;  // scale is empty where there are none
  std::vector<double> decay;

  std::vector<uint8_t> bytes() const {
    std::vector<uint8_t> all;
    const auto add = [&](const auto& x) {
      const auto* const from = reinterpret_cast<const uint8_t*>(x.data());
      all.insert(all.end(), from, from + x.size() * sizeof(x[0]));
    };
    add(state), add(key_sum), add(scale), add(decay);
    return all;
  }
  // Those of the same sizes as these.
  States of(const std::vector<uint8_t>& bytes) const {
    States result = *this;
    size_t at = 0;
    const auto take = [&](auto& x) {
      const size_t count = x.size() * sizeof(x[0]);
      require(at + count <= bytes.size(), "states of {} bytes, too few", bytes.size());
      if (count > 0) std::memcpy(x.data(), bytes.data() + at, count);
      at += count;
    };
    take(result.state), take(result.key_sum), take(result.scale), take(result.decay);
    return result;
  }
  States empty() const {
    States result = *this;
    std::fill(result.state.begin(), result.state.end(), A(0));
    std::fill(result.key_sum.begin(), result.key_sum.end(), A(0));
    std::fill(result.scale.begin(), result.scale.end(), -std::numeric_limits<A>::infinity());
    std::fill(result.decay.begin(), result.decay.end(), 0.0);
    return result;
  }
};

// later = earlier (+) later
template <typename A>
void combine(const States<A>& earlier, States<A>& later) {
  const size_t rows = later.key_sum.size(), features = rows / later.decay.size(),
               values = later.state.size() / rows;
  for (size_t row = 0; row < rows; ++row) {
    A of_earlier = 1, of_later = 1;
    if (!later.scale.empty()) {
      const A decayed = earlier.scale[row] + static_cast<A>(later.decay[row / features]),
              scale = std::max(decayed, later.scale[row]);
      // exp(-infinity - -infinity) is none of an empty state
      const auto factor = [scale](A own) {
        return own == -std::numeric_limits<A>::infinity() ? A(0) : std::exp(own - scale);
      };
      of_earlier = factor(decayed);
      of_later = factor(later.scale[row]);
      later.scale[row] = scale;
    }
    later.key_sum[row] = of_earlier * earlier.key_sum[row] + of_later * later.key_sum[row];
    for (size_t i = row * values; i < (row + 1) * values; ++i)
      later.state[i] = of_earlier * earlier.state[i] + of_later * later.state[i];
  }
  for (size_t bh = 0; bh < later.decay.size(); ++bh) later.decay[bh] += earlier.decay[bh];
}

}  // namespace

void scan_states(SequencePart& part, PartPass pass, const std::vector<Tensor>& states,
                 const Tensor& log_decay) {
  with_real(states[0].dtype(), "scan_states", [&](auto zero) {
    using A = decltype(zero);
    const auto values = [](const Tensor& x) {
      return x.defined() ? x.to_vector<A>() : std::vector<A>();
    };
    States<A> all{values(states[0]), values(states[1]), values(states[2]), {}};
    all.decay = log_decay.defined() ? log_decay.to_vector<double>()
                                    : std::vector<double>(static_cast<size_t>(states[0].size(0)));
    States<A> others = all.empty();
    for (int64_t distance = 1; distance < part.parts(); distance *= 2) {
      const std::vector<uint8_t> bytes = part.shift(all.bytes(), distance, pass);
      if (bytes.empty()) continue;
      const States<A> earlier = all.of(bytes);
      combine(earlier, others);
      combine(earlier, all);
    }
    const auto write = [](const std::vector<A>& from, const Tensor& to) {
      if (to.defined()) to.write(from.data());
    };
    write(others.state, states[0]);
    write(others.key_sum, states[1]);
    write(others.scale, states[2]);
  });
}

}  // namespace linea
