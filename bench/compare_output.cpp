// The files of a comparison: compare.json and compare.md.
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "bench/compare.h"
#include "data/files.h"
#include "data/json.h"
#include "train/format.h"

namespace linea::bench {
namespace {

using Json = nlohmann::ordered_json;

Json number(const std::optional<double>& value) { return value ? Json(*value) : Json(); }

Json json_of(const std::optional<MeanScore>& score) {
  if (!score) return nullptr;
  return {{"mean", score->mean}, {"deviation", score->deviation}, {"seeds", score->seeds}};
}

const CompareRun* first_run(const Comparison& comparison, const std::string& task,
                            const std::string& label) {
  for (const CompareRun& run : comparison.runs)
    if (run.task == task && run.mechanism.label == label) return &run;
  return nullptr;
}

std::string cell_of(const std::optional<MeanScore>& score) {
  if (!score) return "-";
  return score->seeds > 1 ? fmt::format("{:.1f} ± {:.1f}", score->mean, score->deviation)
                          : fmt::format("{:.1f}", score->mean);
}

// The score, or why there is none.
std::string task_cell(const Comparison& comparison, const std::string& task,
                      const std::string& label) {
  if (const auto score = score_of(comparison, task, label)) return cell_of(score);
  const CompareRun* run = first_run(comparison, task, label);
  if (run == nullptr || run->state == "unfinished") return "-";
  return run->state == "excluded" ? run->reason : run->state;
}

// "|" would end a cell.
std::string in_cell(std::string text) {
  for (size_t at = 0; (at = text.find('|', at)) != std::string::npos; at += 2)
    text.insert(at, "\\");
  return text;
}

}  // namespace

Json json_of(const CompareRun& run) {
  return {{"task", run.task},
          {"attention", run.mechanism.attention},
          {"label", run.mechanism.label},
          {"seed", run.seed},
          {"folder", run.folder},
          {"state", run.state},
          {"reason", run.reason.empty() ? Json() : Json(run.reason)},
          {"step", run.step},
          {"steps", run.config.steps},
          {"val_loss", number(run.loss)},
          {"val_accuracy", number(run.accuracy)},
          {"score", number(run.score)},
          {"parameters", run.parameters},
          {"elapsed_s", run.seconds},
          {"tokens_per_s", run.tokens_per_s},
          {"peak_bytes", run.peak_bytes}};
}

Json json_of(const Comparison& comparison) {
  Json rows = Json::array(), runs = Json::array();
  for (const CompareRow& row : comparison.rows) {
    const std::string& label = row.mechanism.label;
    Json scores = Json::object();
    for (const std::string& task : comparison.tasks)
      scores[task] = json_of(score_of(comparison, task, label));
    rows.push_back({{"attention", row.mechanism.attention},
                    {"label", label},
                    {"scores", scores},
                    {"mean", json_of(mean_score(comparison, label))},
                    {"parameters", parameters_of(comparison, label)},
                    {"growth", row.growth}});
  }
  for (const CompareRun& run : comparison.runs) runs.push_back(json_of(run));
  return {{"threads", comparison.threads},
          {"tasks", comparison.tasks},
          {"attentions", rows},
          {"runs", runs}};
}

std::string markdown_of(const Comparison& comparison) {
  std::string head = "| attention |", line = "|---|";
  for (const std::string& task : comparison.tasks) {
    head += fmt::format(" {} |", task);
    line += "---|";
  }
  std::string text = head + " mean | parameters | state |\n" + line + "---|---|---|\n";
  const int64_t softmax = parameters_of(comparison, comparison.rows.front().mechanism.label);
  for (const CompareRow& row : comparison.rows) {
    const std::string& label = row.mechanism.label;
    text += fmt::format("| {} |", in_cell(row.mechanism.attention));
    for (const std::string& task : comparison.tasks)
      text += fmt::format(" {} |", in_cell(task_cell(comparison, task, label)));
    const int64_t parameters = parameters_of(comparison, label);
    text += fmt::format(" {} | {}{} | {} |\n", cell_of(mean_score(comparison, label)),
                        parameters < 0 ? "-" : format_count(static_cast<double>(parameters)),
                        softmax > 0 && 10 * parameters > 11 * softmax ? " +" : "", row.growth);
  }
  text +=
      "\nScores in %: accuracy, or of language 100 (U - loss) / U with U = ln vocabulary. The "
      "mean is softmax's, plus the mean difference to softmax over the tasks with a score. +: "
      "more than 10% more parameters than softmax.\n";
  for (const CompareRun& run : comparison.runs)
    if (run.state == "failed") text += fmt::format("\n{} failed: {}\n", run.folder, run.reason);
  return text;
}

void write_comparison(const std::filesystem::path& folder, const Comparison& comparison) {
  write_file_atomically(folder / "compare.json", dump_json(json_of(comparison), 1) + "\n");
  write_file_atomically(folder / "compare.md", markdown_of(comparison));
}

}  // namespace linea::bench
