// W6: memory of the gradient by way and length. W7: time a token over the length.
#include <algorithm>
#include <cmath>
#include <map>

#include "base/error.h"
#include "data/chart.h"
#include "lab/figures.h"
#include "lab/number.h"
#include "lab/svg.h"

namespace linea::lab {
namespace {

// A row of a table that a bench prints, below the line that names its attention.
struct BenchRow {
  std::string attention, way;
  double length;
  std::string at;  // of its words
  size_t words;
};

// Rows begin with a number; a line that does not begins with an attention's name.
std::vector<BenchRow> bench_rows(const Record& record, size_t run, size_t min_words) {
  const std::string lines = fmt::format("/runs/{}/lines", run);
  std::vector<BenchRow> rows;
  std::string attention;
  for (size_t i = 0; i < record.size(lines); ++i) {
    const std::string at = fmt::format("{}/{}", lines, i);
    const size_t words = record.size(at);
    if (words == 0) continue;
    if (record.is_number(at + "/0")) {
      if (words >= min_words && !attention.empty())
        rows.push_back({attention, record.is_number(at + "/1") ? "" : record.text(at + "/1"),
                        record.value(at + "/0"), at, words});
    } else {
      attention = record.text(at + "/0");
    }
  }
  return rows;
}

}  // namespace

Figure w6(const Record& record) {
  std::vector<BenchRow> rows = bench_rows(record, 1, 8);
  std::erase_if(rows, [](const BenchRow& row) { return row.attention != "linear"; });
  std::string table = table_head({"positions N", "way", "MiB beyond inputs and results"});
  const double low = 0.1, high = 1000, scale = 170 / std::log10(high / low);
  Svg svg(400, 40 + 26 * double(rows.size()) + 14 * double(rows.size() / 4));
  double y = 8;
  const std::map<std::string, std::string> ways = {{"naive", "every state saved"},
                                                   {"chunk", "chunk states saved"},
                                                   {"segment", "segment by segment"},
                                                   {"recomputed", "recomputed (Linea)"}};
  std::string finding;
  std::map<double, std::string> most, least;
  for (size_t i = 0; i < rows.size(); ++i) {
    const BenchRow& row = rows[i];
    const std::string mib = fmt::format("{}/{}", row.at, row.words - 5);
    if (!record.is_number(mib) || ways.count(row.way) == 0) continue;
    const double value = record.value(mib);
    if (i == 0 || rows[i - 1].length != row.length) {
      svg.text(4, y + 14, "N = " + grouped(row.length));
      y += 20;
    }
    svg.text(4, y + 13, ways.at(row.way), "m");
    const double width = std::max(1.0, scale * std::log10(value / low));
    svg.box(150, y + 2, width, 14, row.way == "recomputed" ? "a" : "b");
    svg.text(156 + width, y + 13, fmt::format("{:.2f} MiB", value));
    y += 22;
    const std::string number = record.measured(mib, 2);
    if (row.way == "naive") most[row.length] = number;
    if (row.way == "recomputed") least[row.length] = number;
    table += table_row({"<code>" + grouped(row.length) + "</code>", ways.at(row.way), number});
  }
  if (most.empty() || least.empty())
    fail(ErrorKind::input, "the output of linea bench memory has no rows of linear");
  for (const auto& [length, number] : most)
    finding += fmt::format("{}at N = {} {} MiB and {} MiB", finding.empty() ? "" : ", ",
                           exact_number(grouped(length), fmt::format("{:.0f}", length)), number,
                           least[length]);
  Figure figure{"Memory of forward and backward beyond inputs and results", "", "", table,
                record.text("/runs/1/command")};
  figure.caption = fmt::format(
      "Every state saved and states recomputed take, {}. The states alone are {} MiB at N = {}. "
      "Bars are on a logarithmic scale.",
      finding, exact_number("65", "4*64*65*4*1024/1048576"), exact_number("1,024", "1024"));
  figure.body = svg.element(without_elements(figure.caption));
  return figure;
}

Figure w7(const Record& record) {
  const size_t run = record.size("/runs") - 1;
  const std::vector<BenchRow> rows = bench_rows(record, run, 8);
  Chart chart{
      "Time a token, forward and backward", {"positions N", true}, {"microseconds", true}, {}};
  std::string table = table_head({"attention", "positions N", "microseconds a token"});
  std::map<std::string, std::map<double, std::string>> numbers;
  std::map<std::string, std::map<double, double>> times;
  double least = INFINITY, most = 0;
  for (const BenchRow& row : rows) {
    if (!row.way.empty()) continue;
    const double time = record.value(row.at + "/3");
    if (chart.series.empty() || chart.series.back().name != row.attention) {
      const int i = static_cast<int>(chart.series.size());
      chart.series.push_back({row.attention, {}, {}, i, i});
    }
    chart.series.back().x.push_back(row.length);
    chart.series.back().y.push_back(time);
    least = std::min(least, time), most = std::max(most, time);
    times[row.attention][row.length] = time;
    numbers[row.attention][row.length] = record.measured(row.at + "/3");
    table += table_row({row.attention, "<code>" + grouped(row.length) + "</code>",
                        numbers[row.attention][row.length]});
  }
  if (times.size() < 2 || times["softmax"].size() < 2)
    fail(ErrorKind::input, "the output of linea bench attention has too few rows");
  chart.x.ticks = chart.series[0].x;
  const auto mark = [&](const char* name, double N, int color) {
    if (N >= chart.x.ticks.front() && N <= chart.x.ticks.back())
      chart.series.push_back({name, {N, N}, {least, most}, color, 3, false});
  };
  mark("F = 256: equal by counting", 1028, 4);
  mark("Su's guess", 5000, 5);
  std::string slower;
  for (const auto& [length, time] : times["softmax"])
    if (times["linear"][length] < time && slower.empty())
      slower = fmt::format("linear attention is faster from N = {} on",
                           exact_number(grouped(length), fmt::format("{:.0f}", length)));
  const auto first = numbers["softmax"].begin(), last = std::prev(numbers["softmax"].end());
  Figure figure{"Time a token over the length", "", "", table,
                record.text(fmt::format("/runs/{}/command", run))};
  figure.caption = fmt::format(
      "Of the lengths measured here, {}. Softmax takes {} microseconds a token at N = {} and {} at "
      "N = {}, linear attention {} and {}. By counting, softmax and this Performer are "
      "equal at N = {}, and with <code>F = 256</code> at {}; J. Su guessed {}.",
      slower.empty() ? "linear attention is faster at none" : slower, first->second,
      exact_number(grouped(first->first), fmt::format("{:.0f}", first->first)), last->second,
      exact_number(grouped(last->first), fmt::format("{:.0f}", last->first)),
      numbers["linear"].begin()->second, std::prev(numbers["linear"].end())->second,
      exact_number("257", "2*(2*64*64+64+2*64*64)/128"),
      exact_number("1,028", "2*(2*256*64+256+2*256*64)/128"),
      published_number("5,000", "Su, kexue.fm"));
  chart.description = without_elements(figure.caption);
  figure.body = chart_element(chart);
  return figure;
}

}  // namespace linea::lab
