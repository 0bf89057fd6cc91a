#include "lab/record.h"

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.h"
#include "base/system.h"
#include "data/files.h"
#include "data/json.h"
#include "lab/expect.h"
#include "lab/number.h"
#include "tensor/context.h"

namespace linea::lab {
namespace {

constexpr int64_t kMaxRecord = int64_t{64} << 20;  // bytes

// A word as a number where it is one.
nlohmann::ordered_json word_json(const std::string& word) {
  char* end = nullptr;
  const double x = std::strtod(word.c_str(), &end);
  const bool number = end == word.c_str() + word.size() && std::isfinite(x) &&
                      word.find_first_of("xX") == std::string::npos;
  return number ? nlohmann::ordered_json(x) : nlohmann::ordered_json(word);
}

nlohmann::ordered_json json_of(const Ran& ran) {
  nlohmann::ordered_json lines = nlohmann::ordered_json::array();
  std::istringstream text(ran.output.text);
  for (std::string line; std::getline(text, line);) {
    nlohmann::ordered_json words = nlohmann::ordered_json::array();
    std::istringstream stream(line);
    for (std::string word; stream >> word;) words.push_back(word_json(word));
    lines.push_back(words);
  }
  return {{"command", ran.command},
          {"quick", ran.quick},
          {"exit_code", ran.output.exit_code},
          {"seconds", ran.output.seconds},
          {"as_expected", ran.as_expected},
          {"differs", ran.differs},
          {"output", ran.output.text},
          {"lines", lines}};
}

}  // namespace

nlohmann::ordered_json record_head(const std::string& command, const std::string& version,
                                   int64_t seed, double seconds) {
  return {{"command", command},           {"version", version}, {"machine", processor_name()},
          {"threads", context().threads}, {"seed", seed},       {"seconds", seconds}};
}

void write_record(const std::filesystem::path& folder, const Lesson& lesson,
                  const RunOptions& options, const Printed& printed,
                  const nlohmann::ordered_json& figures) {
  nlohmann::ordered_json runs = nlohmann::ordered_json::array();
  for (const Ran& ran : printed.runs) runs.push_back(json_of(ran));
  const bool own = !lesson.markdown.empty();
  nlohmann::ordered_json document = record_head(
      fmt::format("linea lab {} {}{}{} --out lab", own ? "build" : "run",
                  own ? lesson.name.substr(4) + ".md" : lesson.id, options.quick ? " --quick" : "",
                  options.language == "en" ? "" : " --language " + options.language),
      options.version, 1, printed.seconds);
  if (own) document["markdown"] = lesson.markdown;
  document.update({{"lesson", lesson.id},
                   {"language", options.language},
                   {"runs", runs},
                   {"figures", figures}});
  make_folders(folder / "data");
  write_file_atomically(folder / "data" / (lesson.name + ".json"), dump_json(document, 1) + "\n");
}

Record::Record(const std::filesystem::path& file)
    : name_(file.filename().string()),
      document_(std::make_unique<nlohmann::json>(parse_json(read_file(file, kMaxRecord)))) {
  if (!document_->is_object())
    fail(ErrorKind::input, "{} is no JSON of a lesson: run the lesson again", file.string());
}
Record::~Record() = default;
Record::Record(Record&&) noexcept = default;

const nlohmann::json& Record::at(const std::string& pointer) const {
  const nlohmann::json::json_pointer where(pointer);
  if (!document_->contains(where))
    fail(ErrorKind::input, "data/{} has no {}: run the lesson again", name_, pointer);
  return document_->at(where);
}
bool Record::is_number(const std::string& pointer) const { return at(pointer).is_number(); }
bool Record::has(const std::string& pointer) const {
  return document_->contains(nlohmann::json::json_pointer(pointer));
}
std::vector<std::string> Record::keys(const std::string& pointer) const {
  std::vector<std::string> names;
  for (const auto& [name, value] : at(pointer).items()) names.push_back(name);
  return names;
}
size_t Record::size(const std::string& pointer) const { return at(pointer).size(); }

double Record::value(const std::string& pointer) const {
  const nlohmann::json& found = at(pointer);
  if (!found.is_number()) fail(ErrorKind::input, "data/{}: {} is no number", name_, pointer);
  return found.get<double>();
}
std::string Record::text(const std::string& pointer) const {
  const nlohmann::json& found = at(pointer);
  if (!found.is_string()) fail(ErrorKind::input, "data/{}: {} is no text", name_, pointer);
  return found.get<std::string>();
}
bool Record::flag(const std::string& pointer) const {
  const nlohmann::json& found = at(pointer);
  return found.is_boolean() && found.get<bool>();
}
std::vector<double> Record::numbers(const std::string& pointer) const {
  std::vector<double> result;
  for (const nlohmann::json& x : at(pointer)) {
    if (!x.is_number()) fail(ErrorKind::input, "data/{}: {} has no numbers", name_, pointer);
    result.push_back(x.get<double>());
  }
  return result;
}
Matrix Record::matrix(const std::string& pointer) const {
  Matrix rows;
  for (size_t i = 0; i < size(pointer); ++i)
    rows.push_back(numbers(fmt::format("{}/{}", pointer, i)));
  return rows;
}

std::string Record::pointer_to(size_t run, const std::string& name) const {
  const Place found = find_place(name, text(fmt::format("/runs/{}/output", run)));
  if (!found.exists) return "";
  return fmt::format("/runs/{}/lines/{}/{}", run, found.line, found.column);
}

Matrix Record::printed(size_t run, const std::string& name) const {
  Matrix rows;
  if (pointer_to(run, name + " @1").empty()) return rows;
  const std::string lines = fmt::format("/runs/{}/lines", run);
  for (size_t line = line_of(run, name); line < size(lines); ++line) {
    const nlohmann::json& words = at(fmt::format("{}/{}", lines, line));
    if (words.empty() || (!rows.empty() && !words[0].is_number())) break;
    rows.emplace_back();
    for (const nlohmann::json& word : words)
      if (word.is_number()) rows.back().push_back(word.get<double>());
  }
  return rows;
}

std::string Record::printed_place(size_t run, const std::string& name, size_t row,
                                  size_t column) const {
  const std::string line = fmt::format("/runs/{}/lines/{}", run, line_of(run, name) + row);
  size_t first = 0;
  while (first < size(line) && !at(fmt::format("{}/{}", line, first)).is_number()) ++first;
  return fmt::format("{}/{}", line, first + column);
}

size_t Record::line_of(size_t run, const std::string& name) const {
  const Place found = find_place(name + " @1", text(fmt::format("/runs/{}/output", run)));
  if (!found.exists) fail(ErrorKind::input, "data/{}: no output has {}", name_, name);
  return found.line;
}

std::string Record::measured(const std::string& pointer, int decimals) const {
  const double x = value(pointer);
  std::string text = grouped(x, std::max(decimals, 0));
  if (decimals < 0) text = x == std::round(x) ? grouped(x) : fmt::format("{:.6g}", x);
  return measured_number(text, name_ + "#" + pointer);
}

}  // namespace linea::lab
