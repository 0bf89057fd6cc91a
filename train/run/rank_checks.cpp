#include "train/run/rank_checks.h"

#include <cstring>
#include <set>

#include "train/model_file.h"
#include "train/run/run_state.h"

namespace linea {
namespace {

// FNV-1a of 8 bytes at a time.
uint64_t hash_of(const std::vector<uint8_t>& bytes) {
  uint64_t hash = 0xcbf29ce484222325u;
  const auto add = [&](uint64_t word) { hash = (hash ^ word) * 0x100000001b3u; };
  size_t at = 0;
  for (; at + sizeof(uint64_t) <= bytes.size(); at += sizeof(uint64_t)) {
    uint64_t word = 0;
    std::memcpy(&word, bytes.data() + at, sizeof word);
    add(word);
    hash ^= hash >> 32;  // high bits of a word reach low bits of the hash
  }
  for (; at < bytes.size(); ++at) add(bytes[at]);
  return hash;
}

std::vector<uint8_t> bytes_of(const Tensor& tensor) {
  std::vector<uint8_t> bytes(tensor.bytes());
  if (!bytes.empty()) tensor.read(bytes.data());
  return bytes;
}

std::vector<NamedTensor> state_of(const Model& model, const Optimizer& optimizer) {
  std::vector<NamedTensor> all = model_tensors(model);
  for (const Optimizer::Moment& moment : optimizer.moments()) all.push_back(moment);
  return all;
}

void share(Ranks& ranks, const Tensor& tensor) {
  std::vector<uint8_t> bytes = bytes_of(tensor);
  ranks.broadcast(bytes.data(), bytes.size(), "the weights at the start");
  if (!ranks.is_main() && !bytes.empty()) tensor.write(bytes.data());
}

std::string value_of(const RunConfig& config, const std::string& key) {
  for (const AppliedSetting& applied : applied_settings(config))
    if (applied.setting.key == key) return to_string(applied.value);
  return "not set";
}

// Parts of the environment that run_state.h records.
constexpr const char* kSameParts[] = {"program", "isa"};

std::string environment_text() {
  std::string text;
  for (const auto& [name, value] : current_environment())
    for (const char* part : kSameParts)
      if (name == part) text += value + "\n";
  return text;
}

}  // namespace

void refuse_other_settings(Ranks& ranks, const RunConfig& config) {
  if (ranks.alone()) return;
  const std::string settings = ranks.broadcast(to_toml(config), "the settings"),
                    environment = ranks.broadcast(environment_text(), "the program");
  ranks.agree("the settings", [&] {
    const RunConfig first = config_from_toml(settings, "rank 0's settings");
    const std::set<std::string> own = {"data", "threads", "comm_timeout"};
    for (const SettingChange& change : setting_changes(first, config)) {
      const std::string& key = change.setting.key;
      if (own.count(key) == 0)
        fail(ErrorKind::usage, "{} is {}, rank 0: {}; start all ranks with the same settings", key,
             value_of(config, key), change.before);
    }
    std::string rest = environment, mine = environment_text();
    for (const char* part : kSameParts) {
      const std::string theirs = rest.substr(0, rest.find('\n')),
                        is = mine.substr(0, mine.find('\n'));
      if (theirs != is)
        fail(ErrorKind::usage, "another {} ({}) than rank 0's ({}): {}", part, is, theirs,
             std::string(part) == "program" ? "start the same file on all ranks"
                                            : "set LINEA_ISA to what all processors have");
      rest.erase(0, theirs.size() + 1);
      mine.erase(0, is.size() + 1);
    }
  });
}

void refuse_other_data(Ranks& ranks, const std::string& fingerprint,
                       const std::string& vocabulary) {
  const std::string data = ranks.broadcast(fingerprint, "the data"),
                    tokens = ranks.broadcast(vocabulary, "the vocabulary");
  ranks.agree("the data", [&] {
    if (data != fingerprint)
      fail(ErrorKind::input, "its data are others than rank 0's (SHA-256 {} instead of {})",
           fingerprint, data);
    if (tokens != vocabulary)
      fail(ErrorKind::input, "the vocabulary of its data is another than rank 0's");
  });
}

void share_state(Ranks& ranks, Model& model, Optimizer& optimizer, WeightAverage* average) {
  if (ranks.alone()) return;
  for (const NamedTensor& tensor : state_of(model, optimizer)) share(ranks, tensor.tensor);
  int64_t updates = optimizer.updates();
  ranks.broadcast(&updates, sizeof updates, "the updates");
  if (!ranks.is_main()) {
    optimizer.restore(optimizer.moments(), updates);
    model.buffers_changed();
  }
  if (average == nullptr) return;
  int64_t averaged = average->updates();
  ranks.broadcast(&averaged, sizeof averaged, "the averaged updates");
  for (const NamedTensor& tensor : model_tensors(average->model())) share(ranks, tensor.tensor);
  if (ranks.is_main()) return;
  average->model().buffers_changed();
  average->restore(averaged);
}

void SameWeights::check(int64_t step) {
  if (ranks_.alone()) return;
  const std::vector<NamedTensor> state = state_of(model_, optimizer_);
  std::string own;
  for (const NamedTensor& tensor : state) {
    const uint64_t hash = hash_of(bytes_of(tensor.tensor));
    own.append(reinterpret_cast<const char*>(&hash), sizeof hash);
  }
  const std::vector<std::string> all = ranks_.all_gather(own, "the comparison of weights");
  for (size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank] == all[0]) continue;
    size_t tensor = 0;
    while (tensor + 1 < state.size() &&
           all[rank].compare(tensor * 8, 8, all[0], tensor * 8, 8) == 0)
      ++tensor;
    fail(kRanksError, "{}: its weights differ from rank 0's since step {}, first in {}",
         ranks_.name(static_cast<int>(rank)), same_at_, state[tensor].name);
  }
  same_at_ = step;
}

}  // namespace linea
