#include "lab/expect.h"

#include <algorithm>
#include <cstdlib>
#include <set>
#include <sstream>

#include "base/error.h"

namespace linea::lab {
namespace {

using Words = std::vector<std::string>;

Words words_of(const std::string& line) {
  std::istringstream stream(line);
  Words words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

std::vector<Words> lines_of(const std::string& text) {
  std::istringstream stream(text);
  std::vector<Words> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(words_of(line));
  return lines;
}

std::string missing_lines(const Words& expected, const std::string& output) {
  std::vector<Words> asked;
  for (const std::string& line : expected) asked.push_back(words_of(line));
  const std::vector<Words> lines = lines_of(output);
  if (std::search(lines.begin(), lines.end(), asked.begin(), asked.end()) != lines.end()) return "";
  return fmt::format("the output does not hold:\n{}", fmt::join(expected, "\n"));
}

std::string other_failures(const Words& expected, const std::string& output) {
  std::set<std::string> found;
  for (const Words& line : lines_of(output))
    if (line.size() > 3 && line.back() == "FAILED")
      found.insert(fmt::format("{}", fmt::join(line.begin(), line.end() - 3, " ")));
  const std::set<std::string> asked(expected.begin(), expected.end());
  if (found == asked) return "";
  return fmt::format("these checks fail: {}; expected: {}", fmt::join(found, ", "),
                     fmt::join(asked, ", "));
}

Place find_in(const std::string& name, const std::vector<Words>& lines) {
  const size_t at = name.rfind('@');
  if (at == std::string::npos) fail(ErrorKind::input, "'{}' names no column as @N", name);
  auto line = lines.begin();
  std::istringstream parts(name.substr(0, at));
  bool first = true;
  for (std::string part; std::getline(parts, part, ';'); first = false) {
    const Words begin = words_of(part);
    if (!first && line != lines.end()) ++line;
    line = std::find_if(line, lines.end(), [&](const Words& words) {
      return words.size() >= begin.size() && std::equal(begin.begin(), begin.end(), words.begin());
    });
  }
  const auto column = static_cast<size_t>(std::strtol(name.c_str() + at + 1, nullptr, 10));
  if (line == lines.end() || column < 1 || column > line->size()) return {};
  return {static_cast<size_t>(line - lines.begin()), column - 1, true};
}

// A number of the output.
double cell(const std::string& name, const std::vector<Words>& lines) {
  const Place place = find_in(name, lines);
  if (!place.exists) fail(ErrorKind::numeric, "the output has no '{}'", name);
  return std::strtod(lines[place.line][place.column].c_str(), nullptr);
}

// "A from LOW to HIGH" or "A / B from LOW to HIGH"
std::string out_of_bounds(const std::string& expectation, const std::string& output) {
  const size_t from = expectation.rfind(" from "), to = expectation.rfind(" to "),
               over = expectation.find(" / ");
  if (from == std::string::npos || to == std::string::npos || to < from)
    fail(ErrorKind::input, "'{}' has no bounds, as: from 1 to 2", expectation);
  const double low = std::strtod(expectation.c_str() + from + 6, nullptr),
               high = std::strtod(expectation.c_str() + to + 4, nullptr);
  const std::vector<Words> lines = lines_of(output);
  double value = cell(expectation.substr(0, std::min(over, from)), lines);
  if (over != std::string::npos)
    value /= cell(expectation.substr(over + 3, from - over - 3), lines);
  if (value >= low && value <= high) return "";
  return fmt::format("{} is {:g}, not from {:g} to {:g}", expectation.substr(0, from), value, low,
                     high);
}

}  // namespace

Place find_place(const std::string& name, const std::string& output) {
  return find_in(name, lines_of(output));
}

std::string word_at(const std::string& name, const std::string& output) {
  const Place place = find_place(name, output);
  return place.exists ? lines_of(output)[place.line][place.column] : "";
}

std::string mismatch(const std::string& kind, const std::vector<std::string>& expected,
                     const std::string& output) {
  if (kind == "exact") return missing_lines(expected, output);
  if (kind == "fails") return other_failures(expected, output);
  if (kind != "theory" && kind != "ratio" && kind != "recorded")
    fail(ErrorKind::input, "there is no kind of expectation '{}'", kind);
  try {
    for (const std::string& line : expected)
      if (const std::string reason = out_of_bounds(line, output); !reason.empty()) return reason;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::numeric) throw;
    return error.what();
  }
  return "";
}

std::string agreement(const Block& block) {
  if (block.about != "fails") return "As expected.";
  return block.plain().empty() ? "As expected: no check fails."
                               : "As expected: these checks fail, and no others.";
}

}  // namespace linea::lab
