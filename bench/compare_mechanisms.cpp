// Facts of mechanisms for tables and images: family, growth of the state, keys that a query reads.
#include <algorithm>
#include <set>

#include "bench/compare.h"
#include "nn/attention_list.h"
#include "nn/model.h"
#include "train/format.h"

namespace linea::bench {
namespace {

// In the order of their colors in charts.
enum Family { kPatterns, kSlots, kLinear, kChosen, kExact, kTables, kHybrid };

bool declares(const AttentionOptions& item, const char* key) {
  return find_setting(find_attention(item.name).settings, key) != nullptr;
}

// Softmax over means of keys, tables and priors.
const std::set<std::string>& table_names() {
  static const std::set<std::string> names = {"average", "bpt",   "mca",
                                              "pooling", "prior", "synthesizer"};
  return names;
}

}  // namespace

const std::vector<std::string>& compare_families() {
  static const std::vector<std::string> names = {"softmax over some keys",
                                                 "softmax to slots",
                                                 "linear",
                                                 "keys chosen by content",
                                                 "softmax",
                                                 "means and tables",
                                                 "hybrid"};
  return names;
}

int family_of(const std::string& attention) {
  const std::vector<AttentionOptions> items = parse_attentions(attention);
  const AttentionOptions& first = items.front();
  for (const AttentionOptions& item : items)
    if (item.name != first.name) return kHybrid;
  if (first.name == "softmax") return first.settings.has("window") ? kPatterns : kExact;
  if (table_names().count(first.name) != 0) return kTables;
  if (declares(first, "slots")) return kSlots;
  try {
    const AttentionTraits traits = make_smallest(first)->traits();
    if (traits.decides) return kChosen;
    return traits.softmax_weights ? kPatterns : kLinear;
  } catch (const Error&) {
    return kPatterns;  // those that need an image
  }
}

std::string growth_of(const std::string& attention) {
  double growth = 0;
  for (AttentionOptions item : parse_attentions(attention)) try {
      if (!make_smallest(item)->traits().not_causal.empty()) return "-";
      for (item.turn = 0; item.turn < 4; ++item.turn)  // layers may take patterns in turn
        growth = std::max(growth, make_smallest(item)->traits().state_growth);
    } catch (const Error&) {
      return "-";  // needs an image
    }
  return growth > 0 ? "grows" : "constant";
}

std::string exclusion(const RunConfig& config, const TaskShape& shape) {
  const auto items = static_cast<int64_t>(parse_attentions(config.attention).size());
  if (items > config.layers) return "needs " + plural(items, "layer");
  try {
    const ModelConfig model = model_config(config, shape);
    static_cast<void>(make_model(model));
    for (int64_t item = 0; item < items && model.causal; ++item)
      if (!make_attention(model.attention_of(item))->traits().not_causal.empty())
        return "no causal form";
  } catch (const Error& error) {
    const std::string what = error.what();
    for (const char* reason : {"needs an image", "no causal form"})
      if (error.kind() == ErrorKind::usage && what.find(reason) != std::string::npos) return reason;
  }
  return "";
}

// Training and evaluation differ by 2 (3 D + 2 M) FLOPs for each key that softmax reads; choosing keys
// takes the same in both.
double keys_read(const ModelConfig& config, int64_t length) {
  double most = 0;
  for (int64_t layer = 0; layer < static_cast<int64_t>(config.attentions.size()); ++layer) {
    const AttentionOptions item = config.attention_of(layer);
    const Settings settings = complete_settings(item);
    if (settings.has("slots")) {
      most = std::max(most, static_cast<double>(settings.integer("slots")));
      continue;
    }
    const auto one = make_attention(item);
    if (!one->traits().softmax_weights && !one->traits().decides) continue;
    const auto read = [&](int64_t positions) {
      const AttentionFlops flops = one->flops(positions);
      return (flops.training - flops.forward) /
             static_cast<double>(2 * (3 * item.key_size + 2 * item.value_size));
    };
    // Softmax over all keys reads 16 times as many where there are 16 times as many.
    if (read(16 * length) < 8 * read(length)) most = std::max(most, read(length));
  }
  return most;
}

}  // namespace linea::bench
