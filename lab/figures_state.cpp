// W1: weights and their mean. W2: the two orders of the products. W3: the state and the cache.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "data/chart.h"
#include "lab/figures.h"
#include "lab/number.h"
#include "lab/svg.h"

namespace linea::lab {
namespace {

std::string row_name(const char* letter, size_t i) { return fmt::format("{}{}", letter, i + 1); }

// Bars of the weights of each query.
void add_weights(Svg& svg, const Matrix& weights, double row_height) {
  for (size_t i = 0; i < weights.size(); ++i) {
    const double top = 26 + static_cast<double>(i) * row_height;
    svg.text(4, top + row_height / 2, row_name("q", i));
    for (size_t j = 0; j < weights[i].size(); ++j) {
      const double y = top + 16 * static_cast<double>(j);
      svg.text(28, y + 12, row_name("k", j), "m");
      svg.box(50, y + 2, std::max(0.5, 110 * weights[i][j]), 12, j <= i ? "a" : "s");
      svg.text(56 + 110 * weights[i][j], y + 12, j <= i ? fmt::format("{:.3f}", weights[i][j]) : "",
               "m");
    }
  }
}

// Values and outputs in the plane; lines from the last output are as wide as its weights.
void add_plane(Svg& svg, const Matrix& v, const Matrix& y, const std::vector<double>& weights) {
  constexpr double kLeft = 246, kBottom = 196, kSide = 120;
  const double largest = std::max({largest_of(v), largest_of(y), 1e-9});
  const auto px = [&](const std::vector<double>& p) { return kLeft + kSide * p.at(0) / largest; };
  const auto py = [&](const std::vector<double>& p) { return kBottom - kSide * p.at(1) / largest; };
  svg.line(kLeft, kBottom, kLeft + kSide + 12, kBottom);
  svg.line(kLeft, kBottom, kLeft, kBottom - kSide - 12);
  for (size_t j = 0; j < v.size(); ++j)
    svg.line(px(y.back()), py(y.back()), px(v[j]), py(v[j]), "la", 1 + 8 * weights.at(j));
  for (size_t j = 0; j < v.size(); ++j) {
    svg.box(px(v[j]) - 5, py(v[j]) - 5, 10, 10, "i");
    svg.text(px(v[j]) + 9, py(v[j]) - 7, row_name("v", j));
  }
  for (size_t i = 0; i < y.size(); ++i) {
    svg.circle(px(y[i]), py(y[i]), 5, "b");
    svg.text(px(y[i]) - 8, py(y[i]) + 18, row_name("y", i), "m");
  }
}

}  // namespace

Figure w1(const Record& record) {
  const Matrix weights = record.printed(0, "weights"), y = record.printed(0, "y");
  const size_t N = weights.size();
  if (N < 1 || N > 8 || y.size() != N || y[0].size() != 2)
    fail(ErrorKind::input, "it is for at most 8 positions with values of two numbers");
  // The values follow from the outputs: y = A v, and A is lower triangular.
  Matrix v(N, std::vector<double>(2));
  for (size_t i = 0; i < N; ++i)
    for (size_t m = 0; m < 2; ++m) {
      double rest = y[i][m];
      for (size_t j = 0; j < i; ++j) rest -= weights[i].at(j) * v[j][m];
      v[i][m] = std::round(rest / weights[i].at(i) * 1e4) / 1e4;
    }
  const double row_height = 16 * static_cast<double>(N) + 12;
  Svg svg(400, 34 + static_cast<double>(N) * row_height);
  svg.text(4, 14, "weights of the keys, a row a query", "m");
  svg.text(246, 34, "values and outputs", "m");
  add_weights(svg, weights, row_height);
  add_plane(svg, v, y, weights.back());
  const auto word = [&](const char* name, size_t i, size_t j) {
    const std::string at = record.printed_place(0, name, i, j);
    const double x = record.value(at);
    return record.measured(at, x == std::round(x) ? 0 : 6);
  };
  std::string last, table = table_head({"query", "weights of the keys", "output"});
  for (size_t j = 0; j < N; ++j) last += (j == 0 ? "" : ", ") + word("weights", N - 1, j);
  for (size_t i = 0; i < N; ++i) {
    std::string row;
    for (size_t j = 0; j < N; ++j) row += (j == 0 ? "" : ", ") + word("weights", i, j);
    table += table_row({fmt::format("{}", i + 1), row, word("y", i, 0) + ", " + word("y", i, 1)});
  }
  Figure figure{"Weights of a query, and the mean that they make", "", "", table,
                record.text("/runs/0/command")};
  figure.caption = fmt::format(
      "The last output is the mean of the values with the weights {}: ({}, {}). Each row of bars "
      "sums to 1; keys after the query have none.",
      last, word("y", N - 1, 0), word("y", N - 1, 1));
  figure.body = svg.element(without_elements(figure.caption));
  return figure;
}

namespace {

constexpr double kSize = 64;  // D = M = F of W2
double left_count(double N) { return N * N * (kSize + kSize); }
double right_count(double N) { return N * (2 * kSize * kSize + kSize); }
std::string left_number(double N) {
  return exact_number(grouped(left_count(N)), fmt::format("{0:.0f}*{0:.0f}*(64+64)", N));
}
std::string right_number(double N) {
  return exact_number(grouped(right_count(N)), fmt::format("{:.0f}*(2*64*64+64)", N));
}

// A matrix to scale: lengths are shown as their square roots.
double add_matrix(Svg& svg, double x, double middle, double rows, double columns,
                  const std::string& name, const std::string& look) {
  const double width = 2 * std::sqrt(columns), height = 2 * std::sqrt(rows);
  svg.box(x, middle - height / 2, width, height, look);
  svg.text(x + width / 2, middle + height / 2 + 15, name, "m", "middle");
  return x + width + 14;
}

std::string orders_panel(double N) {
  const double side = 2 * std::sqrt(N), middle = 34 + side / 2, second = middle + side / 2 + 68;
  Svg svg(400, second + 150);
  svg.text(4, 16, "N x N weights first");
  double x = add_matrix(svg, 16, middle, N, kSize, "\u03c6(Q)", "s");
  x = add_matrix(svg, x + 10, middle, kSize, N, "\u03c6(K)\u1d40", "s");
  svg.text(x, middle + 5, "=");
  x = add_matrix(svg, x + 22, middle, N, N, "weights", "b");
  add_matrix(svg, x + 4, middle, N, kSize, "V", "s");
  svg.text(4, second - 22, "F x M state first");
  x = add_matrix(svg, 16, second + 10, kSize, N, "\u03c6(K)\u1d40", "s");
  x = add_matrix(svg, x + 10, second + 10, std::min(N, 400.0), kSize, "V", "s");
  svg.text(x, second + 15, "=");
  add_matrix(svg, x + 22, second + 10, kSize, kSize, "S", "a");
  const double bars = second + 84, scale = 200 / std::log10(left_count(4096));
  for (const bool left : {true, false}) {
    const double y = bars + (left ? 0 : 30), count = left ? left_count(N) : right_count(N);
    svg.text(4, y + 15, left ? "weights first" : "state first", "m");
    svg.box(104, y + 3, scale * std::log10(count), 14, left ? "b" : "a");
    svg.text(110 + scale * std::log10(count), y + 15, grouped(count));
  }
  return svg.element(fmt::format(
             "N = {0:.0f}: the weights first take {1} multiplications, the state first {2}; the "
             "weights are {0:.0f} x {0:.0f} numbers, the state 64 x 64",
             N, grouped(left_count(N)), grouped(right_count(N)))) +
         fmt::format("<p>Weights first: {} multiplications. State first: {}.</p>\n", left_number(N),
                     right_number(N));
}

}  // namespace

Figure w2(const Record&) {
  std::vector<Panel> panels;
  std::string table = table_head({"N", "N x N weights first", "F x M state first"});
  for (const double N : {16, 32, 64, 256, 1024, 4096}) {
    panels.push_back(
        {{fmt::format("{:.0f}", N)}, orders_panel(N), N == 16 || N == 64 || N == 4096});
    table += table_row(
        {"<code>" + panels.back().labels[0] + "</code>", left_number(N), right_number(N)});
  }
  Figure figure{"Two orders of the same products", "", "", table,
                "N^2 (D + M) and N (2 F M + F), D = M = F = 64"};
  figure.caption = fmt::format(
      "At N = {} both orders take as many multiplications; at N = {} the weights first take {}, "
      "the "
      "state first {}. Boxes have sides as the square roots of their sizes, bars are on a "
      "logarithmic scale.",
      exact_number("64.5", "(2*64*64+64)/(64+64)"), exact_number("4,096", "64*64"),
      left_number(4096), right_number(4096));
  figure.body = choice("w2", {"positions N"}, panels, 3);
  return figure;
}

namespace {

std::string film_frame(const Record& record, size_t t, double largest) {
  const std::string at = fmt::format("/figures/w3/frames/{}", t), number = grouped(double(t + 1));
  Matrix state = record.matrix(at + "/S");
  const std::vector<double> z = record.numbers(at + "/z");
  for (size_t f = 0; f < state.size(); ++f) state[f].push_back(z.at(f));
  Matrix cache = record.matrix("/figures/w3/cache");
  const size_t width = cache.at(0).size();
  for (size_t i = t + 1; i < cache.size(); ++i) cache[i].assign(width, 0);
  const double state_bytes = record.value(at + "/state_bytes"),
               cache_bytes = record.value(at + "/cache_bytes");
  return fmt::format(
      "<div class=\"pair\">\n<div>\n{}<p>S and, on the right, z: {} bytes</p>\n</div>\n<div>\n{}"
      "<p>cache of keys and values: {} bytes</p>\n</div>\n</div>\n",
      matrix_image(state, 0, largest, 8,
                   fmt::format("The state after position {}: {} numbers in {} bytes", number,
                               state.size() * state[0].size(), grouped(state_bytes)),
                   record.file_name() + "#" + at + "/S"),
      record.measured(at + "/state_bytes"),
      matrix_image(cache, -2.5, 2.5, 6,
                   fmt::format("Keys and values of {} positions: {} bytes of a cache", number,
                               grouped(cache_bytes))),
      record.measured(at + "/cache_bytes"));
}

Chart bytes_chart(const Record& record) {
  Chart chart{
      "Bytes of a head, D = M = F = 64, float32", {"position", false}, {"bytes", false}, {}};
  const std::vector<double> t = record.numbers("/figures/w3/wide/positions");
  chart.series.push_back(
      {"cache of keys and values", t, record.numbers("/figures/w3/wide/cache_bytes"), 1, 1});
  chart.series.push_back({"state", t, record.numbers("/figures/w3/wide/state_bytes"), 0, 0});
  return chart;
}

}  // namespace

Figure w3(const Record& record) {
  const size_t frames = record.size("/figures/w3/frames");
  const double largest =
      largest_of(record.matrix(fmt::format("/figures/w3/frames/{}/S", frames - 1)));
  std::vector<Panel> panels;
  std::string table = table_head({"position", "bytes of the state", "bytes of the cache"});
  for (size_t t = 0; t < frames; ++t) {
    const bool still = t % (frames / 5) == 0 || t + 1 == frames;
    const std::string at = fmt::format("/figures/w3/frames/{}", t);
    panels.push_back({{fmt::format("{}", t + 1)}, film_frame(record, t, largest), still});
    table += table_row({fmt::format("<code>{}</code>", t + 1), record.measured(at + "/state_bytes"),
                        record.measured(at + "/cache_bytes")});
  }
  Figure figure{"The state keeps its size, the cache grows", "", "", table,
                record.text("/figures/w3/command")};
  figure.caption = fmt::format(
      "After each position, D = M = F = {}: the state has {} bytes at any position, the cache {} "
      "bytes after the first. It is larger from position {} on; with D = M = F = {} (the curves), "
      "where a state has {} bytes, from position {} on. Early states show stripes: they are sums "
      "of few products of a column and a row.",
      record.measured("/figures/w3/size"), record.measured("/figures/w3/frames/0/state_bytes"),
      record.measured("/figures/w3/frames/0/cache_bytes"),
      record.measured("/figures/w3/larger_from"), record.measured("/figures/w3/wide/size"),
      record.measured("/figures/w3/wide/state_bytes/0"),
      record.measured("/figures/w3/wide/larger_from"));
  Chart chart = bytes_chart(record);
  chart.description = without_elements(figure.caption);
  figure.body = choice("w3", {"after position"}, panels, 8, true) + chart_element(chart);
  return figure;
}

}  // namespace linea::lab
