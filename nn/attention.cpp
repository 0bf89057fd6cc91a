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
  const auto place = std::find_if(entries.begin(), entries.end(),
                                  [&](const AttentionEntry& other) { return other.name > entry.name; });
  entries.insert(place, std::move(entry));
}

const std::vector<AttentionEntry>& attentions() { return registry(); }

std::unique_ptr<Attention> make_attention(const AttentionOptions& options) {
  std::vector<std::string> names;
  for (const AttentionEntry& entry : attentions()) {
    if (entry.name == options.attention) return entry.make(options);
    names.push_back(entry.name);
  }
  fail(ErrorKind::usage, "there is no attention '{}'; choose one of {}", options.attention,
       fmt::join(names, ", "));
}

std::string label_of(const AttentionOptions& options) {
  if (options.attention != "linear") return options.attention;
  std::string label = options.attention + " --feature " + options.feature;
  if (options.feature == "dpfp") label += " --nu " + std::to_string(options.nu);
  return label;
}

}  // namespace linea
