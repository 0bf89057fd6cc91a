#include "nn/attention.h"

#include <algorithm>

namespace linea {
namespace {

std::vector<AttentionEntry>& registry() {
  static std::vector<AttentionEntry> entries;
  return entries;
}

}  // namespace

Registration::Registration(AttentionEntry entry) {
  std::vector<AttentionEntry>& entries = registry();
  const auto place = std::find_if(entries.begin(), entries.end(), [&](const AttentionEntry& other) {
    return other.name > entry.name;
  });
  entries.insert(place, std::move(entry));
}

const std::vector<AttentionEntry>& attentions() { return registry(); }

void write_values(const std::vector<double>& values, const Tensor& into) {
  require(static_cast<int64_t>(values.size()) == into.numel(), "{} values for a tensor of {}",
          values.size(), into.shape());
  const std::vector<float> rounded(values.begin(), values.end());
  if (into.dtype() == DType::f32) return into.write(rounded.data());
  const std::vector<double> widened(rounded.begin(), rounded.end());
  into.write(widened.data());
}

namespace {

const AttentionEntry& entry_of(const AttentionOptions& options) {
  std::vector<std::string> names;
  for (const AttentionEntry& entry : attentions()) {
    if (entry.name == options.attention) return entry;
    names.push_back(entry.name);
  }
  fail(ErrorKind::usage, "there is no attention '{}'; choose one of {}", options.attention,
       fmt::join(names, ", "));
}

}  // namespace

std::unique_ptr<Attention> make_attention(const AttentionOptions& options) {
  const AttentionEntry& entry = entry_of(options);
  if (entry.feature.empty() && !options.feature.empty())
    fail(ErrorKind::usage, "--attention {} has no --feature to choose ('{}' was given)",
         options.attention, options.feature);
  if (options.rule != "sum" && options.attention != "linear")
    fail(ErrorKind::usage, "--rule {} goes with --attention linear only, not with {}", options.rule,
         options.attention);
  return entry.make(options);
}

std::string feature_of(const AttentionOptions& options) {
  return options.feature.empty() ? entry_of(options).feature : options.feature;
}

std::string label_of(const AttentionOptions& options) {
  std::string label = options.attention;
  const std::string feature = feature_of(options);
  if (!feature.empty()) label += " --feature " + feature;
  if (options.attention == "linear" && feature == "dpfp")
    label += " --nu " + std::to_string(options.nu);
  if (options.rule != "sum") label += " --rule " + options.rule;
  if (options.attention == "performer") {
    label += " --features " + std::to_string(options.features);
    if (options.projection != "orthogonal") label += " --projection " + options.projection;
  }
  if (options.attention == "vq" || options.attention == "soft-vq")
    label += " --codes " + std::to_string(options.codes);
  return label;
}

}  // namespace linea
