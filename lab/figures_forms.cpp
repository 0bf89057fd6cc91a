// W4: three forms of one output. W5: the two sweeps of the backward pass.
#include <algorithm>

#include "base/error.h"
#include "lab/figures.h"
#include "lab/number.h"
#include "lab/svg.h"

namespace linea::lab {
namespace {

constexpr double kCell = 15;

// The weights that a form computes for output i, and the state that it reads.
void add_form(Svg& svg, double x, size_t tokens, size_t chunk, size_t i, bool has_state) {
  for (size_t row = 0; row < tokens; ++row)
    for (size_t j = 0; j <= row; ++j) {
      const bool own = row / chunk == j / chunk;
      const double left = x + kCell * static_cast<double>(j),
                   top = 40 + kCell * static_cast<double>(row);
      if (own) svg.box(left, top, kCell - 2, kCell - 2, row == i ? "a" : "s");
    }
  if (!has_state) return;
  const size_t before = i / chunk * chunk;  // positions that the state holds
  if (before == 0) return;
  svg.box(x, 40 + kCell * static_cast<double>(i), kCell * static_cast<double>(before) - 2,
          kCell - 2, "b");
}

// A row of a table: position i, and the two numbers of each of `names` there.
std::string row_of_pairs(const Record& record, const std::string& folder,
                         const std::vector<const char*>& names, size_t i) {
  std::vector<std::string> cells = {fmt::format("<code>{}</code>", i + 1)};
  for (const char* name : names) {
    const std::string at = fmt::format("{}/{}/{}", folder, name, i);
    cells.push_back(record.measured(at + "/0") + ", " + record.measured(at + "/1"));
  }
  return table_row(cells);
}

std::string forms_panel(const Record& record, size_t i, size_t tokens, size_t chunk) {
  Svg svg(620, 250);
  const struct {
    const char *form, *title;
    size_t chunk;
  } forms[] = {{"quadratic", "a row of weights", tokens},
               {"chunked", "state + own chunk", chunk},
               {"recurrent", "state + own key", 1}};
  std::string outputs;
  double x = 10;
  for (const auto& form : forms) {
    svg.text(x, 16, form.form);
    svg.text(x, 32, form.title, "m");
    add_form(svg, x, tokens, form.chunk, i, form.chunk < tokens);
    const size_t before = form.chunk < tokens ? i / form.chunk * form.chunk : 0;
    svg.text(x, 240,
             before == 0 ? fmt::format("{} weights", i + 1)
                         : fmt::format("state of {}, {} weights", before, i + 1 - before),
             "m");
    const std::string at = fmt::format("/figures/w4/outputs/{}/{}", form.form, i);
    outputs += fmt::format("{}{} ({}, {})", outputs.empty() ? "" : ", ", form.form,
                           record.measured(at + "/0"), record.measured(at + "/1"));
    x += 210;
  }
  const std::string caption = fmt::format("<p>Output <code>{}</code>: {}.</p>\n", i + 1, outputs);
  return scroll_region("scroll", "Three forms", svg.element(without_elements(caption))) + caption;
}

}  // namespace

Figure w4(const Record& record) {
  const size_t tokens = record.size("/figures/w4/outputs/quadratic"),
               chunk = static_cast<size_t>(record.value("/figures/w4/chunk"));
  std::vector<Panel> panels;
  std::string table = table_head({"output", "quadratic", "chunked", "recurrent"});
  for (size_t i = 0; i < tokens; ++i) {
    panels.push_back({{fmt::format("{}", i + 1)},
                      forms_panel(record, i, tokens, chunk),
                      i == 0 || i == 5 || i + 1 == tokens});
    table += row_of_pairs(record, "/figures/w4/outputs", {"quadratic", "chunked", "recurrent"}, i);
  }
  Figure figure{"Where an output comes from, in three forms", "", "", table,
                record.text("/figures/w4/command")};
  figure.caption = fmt::format(
      "{} random positions in chunks of {}. The first color marks weights that are computed for "
      "the "
      "output, the second what is read from the state in one product, however many positions it "
      "holds. The three outputs agree to {}, relative to the largest.",
      exact_number(fmt::format("{}", tokens), fmt::format("{}", tokens)),
      record.measured("/figures/w4/chunk"), record.measured("/figures/w4/difference"));
  figure.body = choice("w4", {"output"}, panels, 5);
  return figure;
}

namespace {

// Bars to both sides of a middle line.
void add_bars(Svg& svg, double x, double middle, const std::vector<double>& values, double largest,
              const std::string& look) {
  for (size_t c = 0; c < values.size(); ++c) {
    const double height = 22 * values[c] / largest, left = x + 14 * static_cast<double>(c);
    svg.box(left, height > 0 ? middle - height : middle, 11, std::max(0.5, std::abs(height)), look);
  }
  svg.line(x - 2, middle, x + 28, middle);
}

std::string sweep_panel(const Record& record, size_t step, size_t steps) {
  const bool forward = step < steps;
  const size_t at = forward ? step : 2 * steps - 1 - step;
  Svg svg(620, 330);
  const auto read = [&](const char* name) {
    return record.matrix(fmt::format("/figures/w5/{}", name));
  };
  const Matrix dq = read("dq"), dk = read("dk"), dv = read("dv"),
               numerator = read("dk_of_numerator");
  const double largest =
      std::max({largest_of(dq), largest_of(dk), largest_of(dv), largest_of(numerator), 1e-9});
  double largest_S = 1e-9, largest_R = 1e-9;
  for (size_t i = 0; i < steps; ++i) {
    largest_S = std::max(largest_S, largest_of(record.matrix(fmt::format("/figures/w5/S/{}", i))));
    largest_R = std::max(largest_R, largest_of(record.matrix(fmt::format("/figures/w5/R/{}", i))));
  }
  svg.text(4, 16, "forward: S and z, from left to right", "m");
  svg.text(4, 142, "backward: R and r, from right to left", "m");
  for (const auto& [name, y] :
       {std::pair{"dq", 100.0}, {"dv", 214.0}, {"dk", 262.0}, {"dk*", 310.0}})
    svg.text(4, y, name);
  for (size_t i = 0; i < steps; ++i) {
    const double x = 46 + 72 * static_cast<double>(i);
    if (i == at) svg.box(x - 8, forward ? 22 : 148, 66, forward ? 104 : 178, "s");
    if (!forward || i <= at) {
      svg.cells(x, 28, 16, record.matrix(fmt::format("/figures/w5/S/{}", i)), largest_S);
      add_bars(svg, x, 96, dq[i], largest, "a");
    }
    if (!forward && i >= at) {
      svg.cells(x, 154, 16, record.matrix(fmt::format("/figures/w5/R/{}", i)), largest_R);
      add_bars(svg, x, 210, dv[i], largest, "a");
      add_bars(svg, x, 258, dk[i], largest, "a");
      add_bars(svg, x, 306, numerator[i], largest, "b");
    }
  }
  const std::string caption =
      forward ? fmt::format(
                    "<p>Forward, position <code>{}</code>: its state gives dq = ({}, {}).</p>\n",
                    at + 1, record.measured(fmt::format("/figures/w5/dq/{}/0", at)),
                    record.measured(fmt::format("/figures/w5/dq/{}/1", at)))
              : fmt::format(
                    "<p>Backward, position <code>{}</code>: dk = ({}, {}); without the "
                    "denominator dk* = ({}, {}).</p>\n",
                    at + 1, record.measured(fmt::format("/figures/w5/dk/{}/0", at)),
                    record.measured(fmt::format("/figures/w5/dk/{}/1", at)),
                    record.measured(fmt::format("/figures/w5/dk_of_numerator/{}/0", at)),
                    record.measured(fmt::format("/figures/w5/dk_of_numerator/{}/1", at)));
  return scroll_region("scroll", "Two sweeps", svg.element(without_elements(caption))) + caption;
}

}  // namespace

Figure w5(const Record& record) {
  const size_t steps = record.size("/figures/w5/S");
  std::vector<Panel> panels;
  for (size_t step = 0; step < 2 * steps; ++step)
    panels.push_back({{fmt::format("{}", step + 1)},
                      sweep_panel(record, step, steps),
                      step == steps / 2 || step + 1 == 2 * steps});
  std::string table = table_head({"position", "dq", "dk", "dk without the denominator", "dv"});
  for (size_t i = 0; i < steps; ++i)
    table += row_of_pairs(record, "/figures/w5", {"dq", "dk", "dk_of_numerator", "dv"}, i);
  Figure figure{"Two sweeps, one forward and one backward", "", "", table,
                record.text("/figures/w5/command")};
  figure.caption = fmt::format(
      "{} random positions, D = M = F = 2. S and z run forward and give dq; R and r, a state of "
      "the "
      "same size, run backward and give dk and dv. No S and no R is saved: a sweep holds one at a "
      "time. dk* is dk if the "
      "gradient "
      "of the denominator is forgotten (e = 0). The formulas and Linea's backward pass differ by "
      "at "
      "most {}.",
      exact_number(fmt::format("{}", steps), fmt::format("{}", steps)),
      record.measured("/figures/w5/difference"));
  figure.body = choice("w5", {"step"}, panels, 2 * steps - 1, true);
  return figure;
}

}  // namespace linea::lab
