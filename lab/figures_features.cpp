// W12: the range of features. W14: half-lives of gates. W15: keys and codes in the plane.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "data/chart.h"
#include "lab/figures.h"
#include "lab/number.h"
#include "lab/svg.h"

namespace linea::lab {
namespace {

// The position of a power of ten, from -340 to 320.
double on_axis_of_powers(double power) { return 64 + (power + 340) / 660 * 330; }

void add_bar(Svg& svg, double y, const std::string& name, double low, double high,
             const char* look) {
  const double left = on_axis_of_powers(low);
  svg.text(2, y + 12, name);
  svg.box(left, y + 2, std::max(1.0, on_axis_of_powers(high) - left), 13, look);
}

}  // namespace

Figure w12(const Record& record) {
  Svg svg(400, 290);
  for (const double power : {-300.0, -150.0, 0.0, 150.0, 300.0}) {
    svg.line(on_axis_of_powers(power), 16, on_axis_of_powers(power), 268);
    svg.text(on_axis_of_powers(power), 284, fmt::format("1e{:.0f}", power), "m", "middle");
  }
  std::string table = table_head({"type, or sigma", "low end, a power of ten", "high end"}), lost;
  double y = 20;
  for (size_t i = 0; i < record.size("/figures/w12/types"); ++i, y += 22) {
    const std::string type = fmt::format("/figures/w12/types/{}", i);
    add_bar(svg, y, record.text(type + "/name"), record.value(type + "/low"),
            record.value(type + "/high"), "a");
    table += table_row({record.text(type + "/name"), record.measured(type + "/low", 1),
                        record.measured(type + "/high", 1)});
  }
  for (size_t i = 0; i < record.size("/figures/w12/needs"); ++i, y += 22) {
    const std::string need = fmt::format("/figures/w12/needs/{}", i);
    const double low = record.value(need + "/low");
    add_bar(svg, y, fmt::format("\u03c3 = {:g}", record.value(need + "/sigma")), low,
            record.value(need + "/high"), "b");
    table += table_row({record.measured(need + "/sigma"), record.measured(need + "/low", 1),
                        record.measured(need + "/high", 1)});
    if (lost.empty() && low < record.value("/figures/w12/types/0/low"))
      lost = record.measured(need + "/sigma");
  }
  Figure figure{"What features need, and what numbers hold", "", "", table,
                record.text("/figures/w12/command")};
  figure.caption = fmt::format(
      "Above, the normal numbers of three types; below, where nine tenths of the positive features "
      "of keys are, D = {}, for entries of standard deviation sigma. From sigma = {} on, some are "
      "below those of float32 and bf16.",
      record.measured("/figures/w12/key_size"), lost);
  figure.body = svg.element(without_elements(figure.caption));
  return figure;
}

Figure w14(const Record& record) {
  Chart chart{"Weight of a key, n positions later", {"positions n", true}, {"weight", false}, {}};
  std::string table = table_head({"head", "gate g", "half-life in positions"});
  const size_t heads = record.size("/figures/w14/heads");
  for (size_t i = 0; i < heads; ++i) {
    const std::string head = fmt::format("/figures/w14/heads/{}", i);
    Series series{fmt::format("head {}", i + 1), {}, {}, static_cast<int>(i)};
    series.dash = static_cast<int>(i / kChartColors);
    series.markers = false;
    for (int half = 0; half <= 16; ++half) {
      const double n = std::exp2(half / 2.0);
      series.x.push_back(n);
      series.y.push_back(std::pow(record.value(head + "/gate"), n));
    }
    chart.series.push_back(series);
    table += table_row({fmt::format("<code>{}</code>", i + 1), record.measured(head + "/gate"),
                        record.measured(head + "/half_life", 1)});
  }
  chart.x.ticks = {1, 4, 16, 64, 256};
  Figure figure{"How long the heads of a new model remember", "", "", table,
                record.text("/figures/w14/command")};
  figure.caption = fmt::format(
      "g to the n, what is left of a key's weight after n positions, for the initial gates of {} "
      "heads in a model of up to {} positions. 1 / (1 - g) is 2, 4, 8 and so on. Head {} forgets "
      "half of a key in {} positions, the "
      "slowest in {}.",
      exact_number(fmt::format("{}", heads), fmt::format("{}", heads)),
      record.measured("/figures/w14/length"), exact_number("1", "1"),
      record.measured("/figures/w14/heads/0/half_life", 1),
      record.measured(fmt::format("/figures/w14/heads/{}/half_life", heads - 1), 1));
  chart.description = without_elements(figure.caption);
  figure.body = chart_element(chart);
  return figure;
}

namespace {

// Keys as dots, codes as squares, and lines as wide as the probability that a code made the key.
std::string codes_panel(const Record& record, const std::string& panel) {
  const Matrix keys = record.matrix("/figures/w15/keys"),
               codes = record.matrix("/figures/w15/codes"), p = record.matrix(panel + "/p");
  Svg svg(400, 400);
  const auto x = [](const std::vector<double>& point) { return 200 + 64 * point.at(0); };
  const auto y = [](const std::vector<double>& point) { return 200 - 64 * point.at(1); };
  for (size_t j = 0; j < keys.size(); ++j)
    for (size_t f = 0; f < codes.size(); ++f)
      if (p.at(j).at(f) > 0.02)
        svg.line(x(keys[j]), y(keys[j]), x(codes[f]), y(codes[f]), "la", 4 * p[j][f]);
  for (const std::vector<double>& key : keys) svg.circle(x(key), y(key), 3.5, "i");
  for (const std::vector<double>& code : codes) svg.box(x(code) - 6, y(code) - 6, 12, 12, "b");
  return svg.element(fmt::format("{} keys and {} codes, sigma {:g}: a key's largest probability "
                                 "is {:.3g} on average",
                                 keys.size(), codes.size(), record.value(panel + "/sigma"),
                                 record.value(panel + "/largest"))) +
         fmt::format("<p>A key's largest probability is {} on average.</p>\n",
                     record.measured(panel + "/largest"));
}

}  // namespace

Figure w15(const Record& record) {
  std::vector<Panel> panels;
  std::string table = table_head({"sigma", "a key's largest probability, the mean"});
  const size_t count = record.size("/figures/w15/panels");
  for (size_t i = 0; i < count; ++i) {
    const std::string panel = fmt::format("/figures/w15/panels/{}", i);
    panels.push_back({{fmt::format("{:g}", record.value(panel + "/sigma"))},
                      codes_panel(record, panel),
                      i == 0 || i + 1 == count});
    table += table_row({record.measured(panel + "/sigma"), record.measured(panel + "/largest")});
  }
  Figure figure{"Keys that belong to codes", "", "", table, record.text("/figures/w15/command")};
  const std::string last = fmt::format("/figures/w15/panels/{}", count - 1);
  figure.caption = fmt::format(
      "Keys (dots) and codes (squares) in the plane; a line is as wide as the probability p(f | k) "
      "that the code made the key; thinner ones than those of a fiftieth are left out. With "
      "sigma = {} the largest of a key is {} on average; with sigma = {} it is {}: most keys have "
      "one code.",
      record.measured("/figures/w15/panels/0/sigma"),
      record.measured("/figures/w15/panels/0/largest"), record.measured(last + "/sigma"),
      record.measured(last + "/largest"));
  figure.body = choice("w15", {"sigma"}, panels, 1);
  return figure;
}

}  // namespace linea::lab
