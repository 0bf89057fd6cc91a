// One image of a comparison, as Long Range Arena has it: speed to the right, scores upward, and memory
// as the areas of circles.
#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "bench/compare.h"
#include "bench/compare_table.h"
#include "data/chart.h"

namespace linea::bench {
namespace {

// Tay et al. 2020, Long Range Arena, tables 1 and 2 (November 2020): accuracies in %; speed and memory of
// training at 4,096 bytes / softmax's 9.48 GB.
struct Published {
  const char *name, *attention;
  double listops, image, speed, gigabytes;
};
constexpr std::array<Published, 9> kPublished = {
    {{"Transformer", "softmax", 36.37, 42.44, 1.0, 9.48},
     {"Local", "local", 15.82, 41.46, 5.3, 1.37},
     {"Linformer", "linformer", 35.70, 38.56, 5.5, 0.99},
     {"Reformer", "lsh", 37.27, 38.07, 0.8, 2.28},
     {"Sinkhorn", "sinkhorn", 33.67, 41.23, 3.8, 1.48},
     {"Synthesizer", "synthesizer", 36.99, 41.61, 1.4, 6.99},
     {"BigBird", "bigbird", 36.05, 40.83, 1.1, 2.88},
     {"Linear", "linear", 16.13, 42.34, 5.6, 1.03},
     {"Performer", "performer", 18.01, 42.77, 5.7, 1.06}}};

// The scores of the tasks that the comparison has, in turn.
std::vector<double> shared_scores(const Published& published, const Comparison& comparison) {
  std::set<std::string> tasks;
  for (const CompareRun& run : comparison.runs) {
    const Settings& settings = run.config.task_settings;
    const bool classes = settings.has("predict") && to_string(settings.at("predict")) == "class";
    if (run.config.task == "listops" || (run.config.task == "cifar10" && classes))
      tasks.insert(run.config.task);
  }
  std::vector<double> scores;
  if (tasks.count("cifar10") != 0) scores.push_back(published.image);
  if (tasks.count("listops") != 0) scores.push_back(published.listops);
  return scores;
}

void add_point(Series& series, double speed, double score, double memory, double error,
               const std::string& label) {
  series.x.push_back(speed);
  series.y.push_back(score);
  series.area.push_back(memory);
  series.error.push_back(error);
  series.labels.push_back(label);
}

void add_families(const Comparison& comparison, Chart& chart) {
  const std::vector<std::string>& names = compare_families();
  for (size_t family = 0; family < names.size(); ++family) {
    Series series{names[family], {}, {}, static_cast<int>(family)};
    for (const CompareRow& row : comparison.rows) {
      if (static_cast<size_t>(row.family) != family) continue;
      const auto cost = relative_cost(comparison, row, comparison.lengths.back());
      const auto score = mean_score(comparison, row.mechanism.label);
      if (cost && score)
        add_point(series, cost->speed, score->mean, cost->memory, score->deviation,
                  row.mechanism.attention + (cost->causal ? " (c)" : ""));
    }
    if (!series.x.empty()) chart.series.push_back(series);
  }
}

// Those whose attention the comparison has, at its softmax's mean + their mean difference to the
// published softmax.
void add_published(const Comparison& comparison, Chart& chart) {
  const auto softmax = mean_score(comparison, comparison.rows.front().mechanism.label);
  const std::vector<double> baseline = shared_scores(kPublished[0], comparison);
  if (!softmax || baseline.empty() || comparison.request.references != "lra") return;
  Series series{"published (LRA)", {}, {}, 4};
  series.hollow = true;
  for (const Published& published : kPublished) {
    const auto has = [&](const CompareRow& row) {
      return row.family != comparison.rows.front().family &&
             row.mechanism.attention == published.attention;
    };
    if (std::none_of(comparison.rows.begin(), comparison.rows.end(), has)) continue;
    const std::vector<double> scores = shared_scores(published, comparison);
    double difference = 0;
    for (size_t i = 0; i < scores.size(); ++i)
      difference += (scores[i] - baseline[i]) / static_cast<double>(scores.size());
    add_point(series, published.speed, softmax->mean + difference,
              published.gigabytes / kPublished[0].gigabytes, 0,
              std::string(published.name) + " 2020");
  }
  if (!series.x.empty()) chart.series.push_back(series);
}

std::string description_of(const Comparison& comparison) {
  const CompareTable table = table_of(comparison);
  std::string text = fmt::format("{}", fmt::join(table.titles, ", "));
  for (const std::vector<std::string>& row : table.rows)
    text += fmt::format("; {}", fmt::join(row, ", "));
  return text;
}

}  // namespace

Chart compare_chart(const Comparison& comparison) {
  Chart chart{
      fmt::format("Attentions on {}", fmt::join(comparison.tasks, ", ")),
      {fmt::format("speed of a training step at {} positions / softmax", comparison.lengths.back()),
       true},
      {"score in %: softmax's mean + mean difference to softmax"},
      {}};
  for (int power = -10; power <= 10; ++power) chart.x.ticks.push_back(std::exp2(power));
  chart.area = "memory / softmax";
  add_families(comparison, chart);
  add_published(comparison, chart);
  chart.description = description_of(comparison);
  return chart;
}

std::string compare_svg(const Comparison& comparison) {
  return charts_svg({compare_chart(comparison)});
}

}  // namespace linea::bench
