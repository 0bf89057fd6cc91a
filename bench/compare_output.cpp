// compare.json and compare.md.
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "bench/compare.h"
#include "bench/compare_table.h"
#include "data/files.h"
#include "data/hash.h"
#include "data/json.h"
#include "tensor/backend.h"
#include "train/format.h"
#include "train/record/run_history.h"

namespace linea::bench {
namespace {

using Json = nlohmann::ordered_json;

Json number(const std::optional<double>& value) { return value ? Json(*value) : Json(); }

Json json_of(const std::optional<MeanScore>& score) {
  if (!score) return nullptr;
  return {{"mean", score->mean}, {"deviation", score->deviation}, {"seeds", score->seeds}};
}

Json json_of(const Comparison& comparison, const CompareRow& row) {
  Json steps = Json::array();
  for (const StepCost& step : row.cost.steps) {
    const auto relative = relative_cost(comparison, row, step.length);
    steps.push_back({{"length", step.length},
                     {"causal", step.causal},
                     {"step_s", step.seconds},
                     {"peak_bytes", step.peak_bytes},
                     {"speed", relative ? Json(relative->speed) : Json()},
                     {"memory", relative ? Json(relative->memory) : Json()}});
  }
  return {{"state", row.cost.state},
          {"reason", row.cost.reason.empty() ? Json() : Json(row.cost.reason)},
          {"steps", steps}};
}

// The settings that a run follows from.
std::string settings_hash(const RunConfig& config) {
  std::string text;
  for (const AppliedSetting& applied : applied_settings(config))
    if (applied.setting.affects_training)
      text += fmt::format("{} = {}\n", applied.setting.key, to_string(applied.value));
  return hash_bytes(text);
}

std::optional<double> optional_number(const Json& json) {
  if (json.is_null()) return {};
  return json.get<double>();
}

// The inverse of json_of(run) for what a finished run has measured.
void read_result(const Json& json, CompareRun& run) {
  run.step = json.at("step");
  run.loss = optional_number(json.at("val_loss"));
  run.accuracy = optional_number(json.at("val_accuracy"));
  run.answers = optional_number(json.at("val_answers"));
  run.majority = optional_number(json.at("majority"));
  run.score = optional_number(json.at("score"));
  run.parameters = json.at("parameters");
  run.seconds = json.at("elapsed_s");
  run.tokens_per_s = json.at("tokens_per_s");
  run.peak_bytes = json.at("peak_bytes");
  run.state = "finished";
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
          {"settings", settings_hash(run.config)},
          {"val_loss", number(run.loss)},
          {"val_accuracy", number(run.accuracy)},
          {"val_answers", number(run.answers)},
          {"majority", number(run.majority)},
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
                    {"growth", row.growth},
                    {"family", compare_families()[static_cast<size_t>(row.family)]},
                    {"reads_much", row.reads_much},
                    {"cost", json_of(comparison, row)}});
  }
  for (const CompareRun& run : comparison.runs) runs.push_back(json_of(run));
  return {{"version", comparison.version},
          {"machine", {{"threads", comparison.threads}, {"isa", cpu_isa()}}},
          {"preset", comparison.request.preset},
          {"tasks", comparison.tasks},
          {"lengths", comparison.lengths},
          {"attentions", rows},
          {"runs", runs}};
}

std::string markdown_of(const Comparison& comparison) {
  const CompareTable table = table_of(comparison);
  std::string text = "|", line = "|";
  for (const std::string& title : table.titles) {
    text += fmt::format(" {} |", title);
    line += "---|";
  }
  text += "\n" + line + "\n";
  for (const std::vector<std::string>& row : table.rows) {
    text += "|";
    for (const std::string& cell : row) text += fmt::format(" {} |", in_cell(cell));
    text += "\n";
  }
  text += "\n" + fmt::format("{}", fmt::join(table.notes, "\n\n")) + "\n";
  return text;
}

void read_deleted_runs(const std::filesystem::path& folder, Comparison& comparison) {
  const std::filesystem::path file = folder / "compare.json";
  std::error_code error;
  if (!std::filesystem::exists(file, error)) return;
  const Json json = Json::parse(read_file(file), nullptr, false);
  if (!json.is_object() || !json.contains("runs")) return;
  for (const Json& result : json.at("runs"))
    for (CompareRun& run : comparison.runs) try {
        if (result.at("folder") == run.folder && result.at("state") == "finished" &&
            result.at("settings") == settings_hash(run.config) && !is_run(folder / run.folder))
          read_result(result, run);
      } catch (const Json::exception&) {  // damaged: the run is trained again
      }
}

void write_comparison(const std::filesystem::path& folder, const Comparison& comparison) {
  write_file_atomically(folder / "compare.json", dump_json(json_of(comparison), 1) + "\n");
  write_file_atomically(folder / "compare.md", markdown_of(comparison));
  write_file_atomically(folder / "compare.svg", compare_svg(comparison));
  write_file_atomically(folder / "report.html", report_of(comparison, folder));
}

}  // namespace linea::bench
