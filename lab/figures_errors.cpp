// W11: errors of estimates over the number of features.
#include "base/error.h"
#include "data/chart.h"
#include "lab/figures.h"
#include "lab/number.h"

namespace linea::lab {
namespace {

// Medians of the outputs' errors in a table of `linea approx`.
Chart error_chart(const Record& record, size_t run, std::string& table, const std::string& stddev) {
  Chart chart{"Error of y, stddev " + stddev,
              {"features F", true},
              {"median of the mean square", true},
              {}};
  const std::string lines = fmt::format("/runs/{}/lines", run);
  for (size_t i = 0; i < record.size(lines); ++i) {
    const std::string at = fmt::format("{}/{}", lines, i);
    if (record.size(at) != 10 || !record.is_number(at + "/2") || !record.is_number(at + "/8"))
      continue;
    const std::string kind = record.text(at + "/0"), projection = record.text(at + "/1");
    const std::string name = kind + ", " + projection;
    if (chart.series.empty() || chart.series.back().name != name)
      chart.series.push_back({name, {}, {}, kind == "trig" ? 1 : 0, projection == "iid" ? 0 : 1});
    chart.series.back().x.push_back(record.value(at + "/2"));
    chart.series.back().y.push_back(record.value(at + "/8"));
    table += table_row({"<code>" + stddev + "</code>", name, record.measured(at + "/2"),
                        record.measured(at + "/8")});
  }
  if (chart.series.empty()) fail(ErrorKind::input, "the output of linea approx has no rows");
  chart.x.ticks = chart.series[0].x;
  if (chart.x.ticks.size() > 1) {
    Series guide{"1/F", chart.x.ticks, {}, 4, 2, false};
    for (const double F : chart.x.ticks)
      guide.y.push_back(chart.series[0].y[0] * chart.x.ticks[0] / F);
    chart.series.push_back(guide);
  }
  return chart;
}

}  // namespace

Figure w11(const Record& record) {
  std::string table =
      table_head({"stddev", "features", "F", "median of the mean square error of y"});
  std::vector<Chart> charts;
  for (const size_t run : {0, 1}) {
    const std::string command = record.text(fmt::format("/runs/{}/command", run));
    charts.push_back(error_chart(record, run, table, command.substr(command.rfind(' ') + 1)));
  }
  const auto last = [&](size_t run, const char* name) {
    std::string found;
    const std::string lines = fmt::format("/runs/{}/lines", run);
    for (size_t i = 0; i < record.size(lines); ++i) {
      const std::string at = fmt::format("{}/{}", lines, i);
      if (record.size(at) == 10 && !record.is_number(at + "/0") && record.text(at + "/0") == name &&
          record.is_number(at + "/8"))
        found = record.measured(at + "/8");
    }
    return found;
  };
  Figure figure{"Errors over the number of features", "", "", table,
                record.text("/runs/0/command")};
  figure.caption = fmt::format(
      "With the most features, orthogonal rows: at stddev 1 the error of y is {} with positive "
      "features and {} with trigonometric ones, at stddev {} {} and {}: the order changes.",
      last(0, "positive"), last(0, "trig"), exact_number("0.5", "1/2"), last(1, "positive"),
      last(1, "trig"));
  for (Chart& chart : charts) {
    chart.description = without_elements(figure.caption);
    figure.body += chart_element(chart);
  }
  return figure;
}

}  // namespace linea::lab
