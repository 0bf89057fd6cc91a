// W9: estimates of single numbers exp(q^.k^). W10: weights of softmax and their estimates.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "lab/figures.h"
#include "lab/number.h"
#include "lab/svg.h"

namespace linea::lab {
namespace {

// The position of a number on an axis of powers of ten, from 0.001 to 1000.
double on_axis(double x, double from, double to) {
  return from + (std::log10(std::clamp(x, 1e-3, 1e3)) + 3) / 6 * (to - from);
}

// Points at (exact, estimate); those that are not above 0, which no logarithm has, below the axis.
std::string dots(const std::vector<double>& exact, const std::vector<double>& estimate,
                 bool negative) {
  std::string d;
  for (size_t i = 0; i < exact.size(); ++i)
    if (negative == (estimate[i] <= 0))
      d += fmt::format("M{:.0f} {:.0f}h0", on_axis(exact[i], 50, 390),
                       negative ? 304 : on_axis(estimate[i], 290, 10));
  return d;
}

std::string scatter(const Record& record, const std::string& panel) {
  const std::vector<double> exact = record.numbers("/figures/w9/exact"),
                            estimate = record.numbers(panel + "/estimate");
  Svg svg(412, 352);
  for (const double tick : {0.001, 0.1, 10.0, 1000.0}) {
    svg.text(on_axis(tick, 50, 390), 328, fmt::format("{:g}", tick), "m", "middle");
    svg.text(44, on_axis(tick, 290, 10) + 4, fmt::format("{:g}", tick), "m", "end");
  }
  svg.text(220, 346, "exact exp(q\u0302\u00b7k\u0302)", "", "middle");
  svg.text(56, 20, "estimate");
  svg.line(50, 290, 390, 10);
  svg.path(dots(exact, estimate, false), "da");
  svg.path(dots(exact, estimate, true), "db");
  return svg.element(fmt::format(
             "{} rows: {} of {} estimates are not above 0, the median relative error is {:.3g}",
             grouped(record.value(panel + "/rows")), grouped(record.value(panel + "/negative")),
             exact.size(), record.value(panel + "/error"))) +
         fmt::format("<p>Not above 0, shown below: {}. Median relative error: {}.</p>\n",
                     record.measured(panel + "/negative"), record.measured(panel + "/error"));
}

}  // namespace

Figure w9(const Record& record) {
  std::vector<Panel> panels;
  std::string table = table_head({"estimate", "rows R", "not above 0", "median relative error"});
  for (size_t i = 0; i < record.size("/figures/w9/panels"); ++i) {
    const std::string panel = fmt::format("/figures/w9/panels/{}", i),
                      kind = record.text(panel + "/kind");
    panels.push_back(
        {{kind, fmt::format("{:.0f}", record.value(panel + "/rows"))}, scatter(record, panel)});
    table += table_row({kind, record.measured(panel + "/rows"),
                        record.measured(panel + "/negative"), record.measured(panel + "/error")});
  }
  Figure figure{"Estimates of single numbers", "", "", table, record.text("/figures/w9/command")};
  figure.caption = fmt::format(
      "A point is a pair: to the right the exact exp(q\u0302\u00b7k\u0302), upwards its "
      "estimate; on the line both are equal. Points outside of the scales are at their edge. Most "
      "positive "
      "estimates are too small: few large ones, which are rare, make the mean right. With {} rows "
      "half of the positive estimates are off by more than {}, as a share of the number, half of "
      "the trigonometric ones by {}, and {} of these are not above 0.",
      record.measured("/figures/w9/panels/1/rows"), record.measured("/figures/w9/panels/1/error"),
      record.measured("/figures/w9/panels/4/error"),
      record.measured("/figures/w9/panels/4/negative"));
  figure.body = choice("w9", {"features", "rows"}, panels, 1);
  return figure;
}

namespace {

std::string captioned(const std::string& image, const std::string& text) {
  return fmt::format("<div>\n{}<p>{}</p>\n</div>\n", image, text);
}

std::string image_of(const Matrix& values, double least, double largest, const std::string& name,
                     const std::string& from = "") {
  return matrix_image(values, least, largest, 3,
                      fmt::format("{}, {} queries by {} keys, colors from {:.2g} to {:.2g}", name,
                                  values.size(), values.at(0).size(), least, largest),
                      from);
}

// Two panels of 64 x 64: the estimate in the colors of the exact weights, and what it is off by.
std::string weights_panel(const Record& record, const Matrix& exact, const std::string& panel) {
  const Matrix estimate = record.matrix(panel + "/weights");
  Matrix difference = estimate;
  for (size_t i = 0; i < exact.size(); ++i)
    for (size_t j = 0; j < exact[i].size(); ++j) difference.at(i).at(j) -= exact[i][j];
  const double largest = largest_of(exact);
  return fmt::format(
      "<div class=\"pair\">\n{}{}</div>\n<p>Half of the rows are off by more than {}, summed over "
      "keys.</p>\n",
      captioned(
          image_of(estimate, 0, largest, "Estimate", record.file_name() + "#" + panel + "/weights"),
          "estimate"),
      captioned(image_of(difference, -largest, largest, "Estimate less softmax"), "difference"),
      record.measured(panel + "/error"));
}

}  // namespace

Figure w10(const Record& record) {
  std::vector<Matrix> exact;
  std::string softmax;
  for (size_t i = 0; i < record.size("/figures/w10/exact"); ++i) {
    const std::string at = fmt::format("/figures/w10/exact/{}", i);
    exact.push_back(record.matrix(at + "/weights"));
    softmax += captioned(
        image_of(exact.back(), 0, largest_of(exact.back()),
                 fmt::format("Softmax at standard deviation {:g}", record.value(at + "/stddev")),
                 record.file_name() + "#" + at + "/weights"),
        fmt::format("softmax, standard deviation {}", record.measured(at + "/stddev")));
  }
  std::vector<Panel> panels;
  std::string table = table_head({"stddev", "features", "rows R", "median error of a row"});
  for (size_t i = 0; i < record.size("/figures/w10/panels"); ++i) {
    const std::string panel = fmt::format("/figures/w10/panels/{}", i);
    const double stddev = record.value(panel + "/stddev");
    const bool first = stddev == record.value("/figures/w10/exact/0/stddev");
    panels.push_back({{fmt::format("{:g}", stddev), record.text(panel + "/kind"),
                       fmt::format("{:.0f}", record.value(panel + "/rows"))},
                      weights_panel(record, exact.at(first ? 0 : 1), panel)});
    table += table_row({record.measured(panel + "/stddev"), record.text(panel + "/kind"),
                        record.measured(panel + "/rows"), record.measured(panel + "/error")});
  }
  Figure figure{"Weights of softmax and their estimates", "", "", table,
                record.text("/figures/w10/command")};
  figure.caption = fmt::format(
      "Rows are {} queries, columns as many keys; yellow is large, dark blue 0 or less, and in the "
      "difference gray is 0. A bright column is a key that is too large for many queries: all "
      "share one omega. The error of a row is the sum of absolute differences. Standard deviation "
      "{}: with {} rows of omega half of the rows of weights "
      "are off by more than {} (positive) or {} (trig). Standard deviation {}: {} and {}.",
      record.measured("/figures/w10/size"), record.measured("/figures/w10/panels/1/stddev"),
      record.measured("/figures/w10/panels/1/rows"), record.measured("/figures/w10/panels/1/error"),
      record.measured("/figures/w10/panels/4/error"),
      record.measured("/figures/w10/panels/7/stddev"),
      record.measured("/figures/w10/panels/7/error"),
      record.measured("/figures/w10/panels/10/error"));
  figure.body = "<div class=\"pair\">\n" + softmax + "</div>\n" +
                choice("w10", {"standard deviation", "features", "rows"}, panels, 1);
  return figure;
}

}  // namespace linea::lab
