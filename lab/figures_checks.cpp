// W8: checks and the defects that they find. W13: what rules give back after three writes.
#include <algorithm>
#include <cmath>
#include <map>
#include <sstream>

#include "base/error.h"
#include "lab/figures.h"
#include "lab/number.h"
#include "lab/svg.h"

namespace linea::lab {
namespace {

constexpr double kRow = 20, kColumn = 78, kNames = 196;

// A line of `linea verify`.
struct CheckLine {
  std::string name;
  std::string measured, bound;  // pointers
  bool failed;
};

std::vector<CheckLine> checks_of(const Record& record, size_t run) {
  std::vector<CheckLine> checks;
  std::istringstream output(record.text(fmt::format("/runs/{}/output", run)));
  std::string line;
  for (size_t i = 0; std::getline(output, line); ++i) {
    std::istringstream stream(line);
    std::vector<std::string> words;
    for (std::string word; stream >> word;) words.push_back(word);
    if (words.size() < 4 || (words.back() != "ok" && words.back() != "FAILED")) continue;
    const std::string at = fmt::format("/runs/{}/lines/{}/", run, i);
    CheckLine check{fmt::format("{}", fmt::join(words.begin(), words.end() - 3, " ")),
                    at + fmt::format("{}", words.size() - 3),
                    at + fmt::format("{}", words.size() - 2), words.back() == "FAILED"};
    if (record.is_number(check.bound) && (check.failed || record.is_number(check.measured)))
      checks.push_back(check);
  }
  return checks;
}

// A bar up to the measured number on a logarithmic scale, with a line where the bound is.
void add_check(Svg& svg, double x, double y, double measured, double bound, bool failed) {
  double digits = measured > 0 && bound > 0 ? std::log10(measured / bound) : -9;
  if (failed && !(digits > 0)) digits = 9;  // of a bound of 0, or not finite
  const double length = std::clamp(44 + 4 * digits, 2.0, kColumn - 18);
  svg.box(x, y + 4, length, kRow - 9, failed ? "b" : "a");
  svg.line(x + 44, y + 1, x + 44, y + kRow - 2);
  if (failed) svg.text(x + length + 2, y + 14, "\u00d7");
}

// "--break gradient" -> "gradient"
std::string defect_of(const std::string& command) {
  const size_t at = command.find("--break ");
  if (at == std::string::npos) return "none";
  return command.substr(at + 8, command.find(' ', at + 8) - at - 8);
}

}  // namespace

Figure w8(const Record& record) {
  const std::vector<CheckLine> whole = checks_of(record, 0);
  if (whole.empty()) fail(ErrorKind::input, "the output of linea verify has no checks");
  std::vector<std::string> titles = {"check"}, names;
  const size_t runs = std::min<size_t>(record.size("/runs"), 5);
  for (size_t run = 0; run < runs; ++run)  // shorter runs have other checks
    for (const CheckLine& check : checks_of(record, run))
      if (std::find(names.begin(), names.end(), check.name) == names.end())
        names.push_back(check.name);
  Svg svg(kNames + kColumn * double(runs), 34 + kRow * double(names.size()));
  std::map<std::string, std::vector<std::string>> cells;
  std::string found;
  for (size_t run = 0; run < runs; ++run) {
    const std::string defect = defect_of(record.text(fmt::format("/runs/{}/command", run)));
    const double x = kNames + kColumn * double(run);
    titles.push_back("defect: " + defect);
    svg.text(x, 18, defect);
    size_t failures = 0;
    for (const CheckLine& check : checks_of(record, run)) {
      const auto row = std::find(names.begin(), names.end(), check.name);
      const double y = 28 + kRow * static_cast<double>(row - names.begin());
      const bool finite = record.is_number(check.measured);
      add_check(svg, x, y, finite ? record.value(check.measured) : 0, record.value(check.bound),
                check.failed);
      failures += check.failed ? 1 : 0;
      cells[check.name].resize(run + 1);
      cells[check.name][run] =
          (finite ? record.measured(check.measured) : record.text(check.measured)) +
          (check.failed ? ", fails" : "");
    }
    if (run > 0)
      found += fmt::format("{}{} fail under {}", found.empty() ? "" : ", ",
                           exact_number(fmt::format("{}", failures), fmt::format("{}", failures)),
                           defect);
  }
  std::string table = table_head(titles);
  for (size_t i = 0; i < names.size(); ++i) {
    svg.text(2, 42 + kRow * static_cast<double>(i), names[i], "m");
    std::vector<std::string> row = cells[names[i]];
    row.resize(runs);
    row.insert(row.begin(), "<code>" + names[i] + "</code>");
    table += table_row(row);
  }
  Figure figure{"Checks of an attention that is right, and of some that are wrong on purpose", "",
                "", table, record.text("/runs/0/command")};
  figure.caption = fmt::format(
      "Without a defect all {} checks hold that were run; {}. A bar is what was measured, a line "
      "its bound, both on a logarithmic scale, and a cross is a failure: where the bound is 0, of "
      "any number.",
      exact_number(fmt::format("{}", whole.size()), fmt::format("{}", whole.size())), found);
  figure.body = scroll_region("scroll", "Checks", svg.element(without_elements(figure.caption)));
  return figure;
}

namespace {

constexpr const char* kRules[] = {"sum", "gated", "delta", "gated delta"};

// What A and B give back after each write: rows of S, divided by z where there is one.
std::vector<std::vector<double>> given_back(const Record& record, size_t run) {
  std::vector<std::vector<double>> result;
  for (int t = 1; t <= 3; ++t) {
    const std::string step = fmt::format("t = {}; ", t);
    const Matrix S = record.printed(run, step + "S");
    if (S.size() != 2 || S[0].size() != 1)
      fail(ErrorKind::input, "it is for two keys and values of one number");
    const bool has_z =
        record.text(fmt::format("/runs/{}/output", run)).find("  z") != std::string::npos;
    const Matrix z = has_z ? record.printed(run, step + "z") : Matrix();
    std::vector<double> row;
    for (size_t key = 0; key < 2; ++key) {
      const double weight = z.empty() ? 1 : z.at(0).at(key);
      row.push_back(weight < 1e-9 ? 0 : S[key][0] / weight);
    }
    result.push_back(row);
  }
  return result;
}

}  // namespace

Figure w13(const Record& record) {
  Svg svg(400, 330);
  std::string table = table_head({"rule", "A gives back after the third write"}), found;
  for (size_t run = 0; run < std::size(kRules); ++run) {
    const double left = 10 + 200 * double(run % 2), bottom = 140 + 160 * double(run / 2);
    svg.text(left, bottom - 120, kRules[run]);
    const std::vector<std::vector<double>> values = given_back(record, run);
    for (size_t t = 0; t < values.size(); ++t)
      for (size_t key = 0; key < 2; ++key) {
        const double x = left + 56 * double(t) + 24 * double(key), height = 5.5 * values[t][key];
        svg.box(x, bottom - height, 20, std::max(0.5, height), key == 0 ? "a" : "b");
        svg.text(x + 10, bottom - height - 4, fmt::format("{:.4g}", values[t][key]), "m", "middle");
        svg.text(x + 10, bottom + 14, key == 0 ? "A" : "B", "m", "middle");
      }
    svg.line(left - 4, bottom, left + 160, bottom);
    const std::string number = record.measured(record.printed_place(run, "t = 3; y", 0, 0));
    found += fmt::format("{}{} under {}", found.empty() ? "" : ", ", number, kRules[run]);
    table += table_row({kRules[run], number});
  }
  Figure figure{"Three writes under four rules", "", "", table, record.text("/runs/0/command")};
  figure.caption = fmt::format(
      "Writes of {0} to A, {0} to B and 6 to A; bars are what A and B give back after each. After "
      "the third, A gives back {1}. The delta rules write a part of the error. Under gated, B "
      "still gives {0}: S and z decay together.",
      exact_number("16", "16"), found);
  figure.body = svg.element(without_elements(figure.caption));
  return figure;
}

}  // namespace linea::lab
