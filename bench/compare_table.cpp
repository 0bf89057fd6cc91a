#include "bench/compare_table.h"

#include <algorithm>

#include "train/format.h"

namespace linea::bench {
namespace {

constexpr double kMoreParameters = 1.1;

std::string score_cell(const std::optional<MeanScore>& score) {
  if (!score) return "-";
  return score->seeds > 1 ? fmt::format("{:.1f} ± {:.1f}", score->mean, score->deviation)
                          : fmt::format("{:.1f}", score->mean);
}

// The score, or why there is none.
std::string task_cell(const Comparison& comparison, const std::string& task,
                      const std::string& label) {
  const CompareRun* first = nullptr;
  bool majority = true;
  for (const CompareRun& run : comparison.runs) {
    if (run.task != task || run.mechanism.label != label) continue;
    if (first == nullptr) first = &run;
    if (run.state == "finished") majority &= run.at_majority();
  }
  if (const auto score = score_of(comparison, task, label))
    return score_cell(score) + (majority ? " =" : "");
  if (first == nullptr || first->state == "unfinished") return "-";
  return first->state == "excluded" ? first->reason : first->state;
}

std::string parameters_cell(const Comparison& comparison, const std::string& label) {
  const int64_t softmax = parameters_of(comparison, comparison.rows.front().mechanism.label),
                own = parameters_of(comparison, label);
  if (own < 0) return "-";
  const bool more =
      softmax > 0 && static_cast<double>(own) > kMoreParameters * static_cast<double>(softmax);
  return format_count(static_cast<double>(own)) + (more ? " +" : "");
}

void add_costs(const Comparison& comparison, const CompareRow& row,
               std::vector<std::string>& cells) {
  for (const int64_t length : comparison.lengths) {
    const auto cost = relative_cost(comparison, row, length);
    cells.push_back(cost ? fmt::format("{:.2f}{}", cost->speed, cost->causal ? " c" : "") : "-");
    cells.push_back(cost ? fmt::format("{:.2f}", cost->memory) : "-");
  }
}

}  // namespace

CompareTable table_of(const Comparison& comparison) {
  CompareTable table;
  table.titles = {"attention"};
  table.titles.insert(table.titles.end(), comparison.tasks.begin(), comparison.tasks.end());
  table.titles.emplace_back("mean");
  table.titles.emplace_back("parameters");
  for (const int64_t length : comparison.lengths) {
    table.titles.push_back(fmt::format("speed at {}", length));
    table.titles.push_back(fmt::format("memory at {}", length));
  }
  table.titles.emplace_back("state");
  for (const CompareRow& row : comparison.rows) {
    const std::string& label = row.mechanism.label;
    std::vector<std::string>& cells = table.rows.emplace_back();
    cells.push_back(row.mechanism.attention + (row.reads_much ? " †" : ""));
    for (const std::string& task : comparison.tasks)
      cells.push_back(task_cell(comparison, task, label));
    cells.push_back(score_cell(mean_score(comparison, label)));
    cells.push_back(parameters_cell(comparison, label));
    add_costs(comparison, row, cells);
    cells.push_back(row.growth);
  }
  table.notes = {
      "Scores in %: accuracy, or of language 100 (U - loss) / U with U = ln vocabulary. The mean "
      "is softmax's, plus the mean difference to softmax over the tasks with a score. Speed and "
      "memory are those of a training step / softmax's, at so many positions; c: causal, where "
      "softmax is not. State: what a position of sampling reads.",
      "=: no better than the commonest answer. +: more than 10% more parameters than softmax. †: "
      "reads more than a quarter of the shortest task's length, so that its restriction hardly "
      "shows."};
  for (const CompareRun& run : comparison.runs)
    if (run.state == "failed")
      table.notes.push_back(fmt::format("{} failed: {}", run.folder, run.reason));
  for (const CompareRow& row : comparison.rows)
    if (row.cost.state == "failed")
      table.notes.push_back(fmt::format("time and memory of {} failed: {}", row.mechanism.attention,
                                        row.cost.reason));
  return table;
}

}  // namespace linea::bench
