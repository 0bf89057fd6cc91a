// What is compared: the request, the list of mechanisms, and the numbers of their runs together.
#include "bench/compare.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "data/json.h"
#include "nn/attention_list.h"

namespace linea::bench {
namespace {

constexpr const char* kSoftmax = "softmax";

// A text as JSON has it is one of TOML too.
std::string line_of(const std::string& key, const std::string& value) {
  return fmt::format("{} = {}\n", key, dump_json(nlohmann::json(value)));
}

// The fields of a request by the keys of compare.toml.
std::vector<std::pair<const char*, std::string CompareRequest::*>> fields() {
  return {{"preset", &CompareRequest::preset},
          {"tasks", &CompareRequest::tasks},
          {"attentions", &CompareRequest::attentions},
          {"seeds", &CompareRequest::seeds},
          {"lengths", &CompareRequest::lengths},
          {"references", &CompareRequest::references},
          {"data", &CompareRequest::data}};
}

// Every name at its defaults, the other rules of linear, and hybrids.
std::vector<std::string> all_attentions() {
  std::vector<std::string> all = attention_names();
  const Setting* rule = find_setting(find_attention("linear").settings, "rule");
  for (const std::string& choice : rule->choices)
    if (choice != to_string(rule->initial)) all.push_back("linear:rule=" + choice);
  for (const char* hybrid : {"gdn/softmax", "kda/softmax", "ssd/softmax:window=32"})
    all.emplace_back(hybrid);
  return all;
}

}  // namespace

std::string to_toml(const CompareRequest& request) {
  std::string text = "# linea compare --resume continues this.\n";
  for (const auto& [key, member] : fields())
    if (!(request.*member).empty()) text += line_of(key, request.*member);
  for (const auto& [key, value] : request.given) text += line_of(key, to_string(value));
  return text;
}

CompareRequest request_from_toml(const std::string& text, const std::string& source) {
  CompareRequest request;
  request.given = parse_toml(text, source).values;
  for (const auto& [key, value] : request.given)
    if (!std::holds_alternative<std::string>(value))
      fail(ErrorKind::input, "{}: the value of '{}' is no text, as linea compare writes it", source,
           key);
  for (const auto& [key, member] : fields()) {
    if (!request.given.has(key)) continue;
    request.*member = request.given.text(key);
    request.given.erase(key);
  }
  return request;
}

std::vector<std::string> split_list(const std::string& list) {
  std::vector<std::string> items = {""};
  int depth = 0;
  for (const char c : list) {
    depth += (c == '{') - (c == '}');
    if (c == ',' && depth == 0)
      items.emplace_back();
    else if (c != ' ' || depth > 0)
      items.back() += c;
  }
  std::erase(items, "");
  return items;
}

std::string folder_label(const std::string& attention) {
  std::string label = attention;
  for (char& c : label)
    if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '=' || c == '-'))
      c = '_';
  return label;
}

std::vector<Compared> compared_attentions(const std::string& list) {
  std::vector<std::string> names = {kSoftmax};
  for (const std::string& item : split_list(list)) {
    if (item != "all") {
      names.push_back(item);
      continue;
    }
    for (const std::string& name : all_attentions()) names.push_back(name);
  }
  std::vector<Compared> result;
  std::set<std::string> labels;
  for (const std::string& name : names) {
    const std::string attention = attention_list(parse_attentions(name));
    if (const std::string label = folder_label(attention); labels.insert(label).second)
      result.push_back({attention, label});
  }
  return result;
}

// 2 standard errors of a share of so many answers.
bool CompareRun::at_majority() const {
  if (!accuracy || !majority || !answers || *majority <= 0) return false;
  return *accuracy <= *majority + 2 * std::sqrt(*majority * (1 - *majority) / *answers);
}

std::optional<MeanScore> score_of(const Comparison& comparison, const std::string& task,
                                  const std::string& label) {
  std::vector<double> scores;
  for (const CompareRun& run : comparison.runs)
    if (run.task == task && run.mechanism.label == label && run.state == "finished" && run.score)
      scores.push_back(*run.score);
  if (scores.empty()) return {};
  MeanScore result{0, 0, static_cast<int64_t>(scores.size())};
  const auto count = static_cast<double>(scores.size());
  for (const double score : scores) result.mean += score / count;
  double squares = 0;
  for (const double score : scores) squares += (score - result.mean) * (score - result.mean);
  if (scores.size() > 1) result.deviation = std::sqrt(squares / (count - 1));
  return result;
}

std::optional<MeanScore> mean_score(const Comparison& comparison, const std::string& label) {
  double all = 0, difference = 0, variance = 0, tasks = 0, both = 0;
  MeanScore result;
  for (const std::string& task : comparison.tasks) {
    const auto softmax = score_of(comparison, task, kSoftmax);
    if (!softmax) continue;
    all += softmax->mean;
    ++tasks;
    const auto own = score_of(comparison, task, label);
    if (!own) continue;
    difference += own->mean - softmax->mean;
    variance += own->deviation * own->deviation;
    result.seeds = std::max(result.seeds, own->seeds);
    ++both;
  }
  if (both == 0) return {};
  result.mean = all / tasks + difference / both;
  result.deviation = std::sqrt(variance) / both;
  return result;
}

std::optional<RelativeCost> relative_cost(const Comparison& comparison, const CompareRow& row,
                                          int64_t length) {
  const StepCost *own = row.cost.at(length), *softmax = comparison.rows.front().cost.at(length);
  if (own == nullptr || softmax == nullptr) return {};
  return RelativeCost{softmax->seconds / own->seconds, own->peak_bytes / softmax->peak_bytes,
                      own->causal};
}

int64_t parameters_of(const Comparison& comparison, const std::string& label) {
  for (const CompareRun& run : comparison.runs)
    if (run.mechanism.label == label && run.parameters > 0) return run.parameters;
  return -1;
}

}  // namespace linea::bench
