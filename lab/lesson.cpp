#include "lab/lesson.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <sstream>

#include "base/error.h"
#include "base/settings.h"

namespace linea::lab {
namespace {

constexpr const char* kKeys[] = {"quick", "long", "answer", "hint", "read", "run", "holds"};

bool begins(const std::string& line, const std::string& with) { return line.rfind(with, 0) == 0; }

// The order in which lessons are read; what is new comes last.
const std::vector<std::string>& order() {
  static const std::vector<std::string> ids = {"1", "2", "3", "4", "5", "A", "C",
                                               "6", "7", "B", "8", "9", "10"};
  return ids;
}

std::ptrdiff_t position(const Lesson& lesson) {
  return std::find(order().begin(), order().end(), lesson.id) - order().begin();
}

// Those in the order of reading, or the others.
std::vector<Lesson> parse_lessons(bool in_order) {
  std::vector<Lesson> result;
  for (const LessonFile& file : kLessonFiles)
    if (file.name.ends_with(".md") && file.name.find('/') == std::string::npos)
      result.push_back(parse_lesson(file));
  std::erase_if(result, [&](const Lesson& lesson) {
    return (position(lesson) < std::ssize(order())) != in_order;
  });
  std::stable_sort(result.begin(), result.end(),
                   [](const Lesson& a, const Lesson& b) { return position(a) < position(b); });
  return result;
}

}  // namespace

std::vector<std::string> Block::values(const std::string& key) const {
  std::vector<std::string> result;
  for (const std::string& line : lines)
    if (begins(line, key + ": ")) result.push_back(line.substr(key.size() + 2));
  return result;
}

std::vector<std::string> Block::plain() const {
  std::vector<std::string> result;
  for (const std::string& line : lines)
    if (std::none_of(std::begin(kKeys), std::end(kKeys),
                     [&](const std::string& key) { return begins(line, key + ": "); }))
      result.push_back(line);
  return result;
}

double Lesson::seconds() const {
  double sum = 0;
  for (const Block& block : blocks)
    if (block.kind == "run") sum += std::strtod(block.about.c_str(), nullptr);
  return sum;
}

Lesson parse_lesson(const LessonFile& file) {
  Lesson lesson;
  lesson.name = std::filesystem::path(file.name).stem().string();
  std::istringstream lines(file.text);
  bool fenced = false;
  for (std::string line; std::getline(lines, line);) {
    if (lesson.title.empty()) {
      const size_t dot = line.find(" \u00b7 ");
      if (!begins(line, "# ") || dot == std::string::npos)
        fail(ErrorKind::input, "{} must begin with '# ID \u00b7 TITLE'", file.name);
      lesson.id = line.substr(2, dot - 2);
      lesson.title = line.substr(dot + 4);
    } else if (begins(line, "```") && fenced) {
      fenced = false;
    } else if (begins(line, "```")) {
      const size_t blank = std::min(line.find(' '), line.size());
      lesson.blocks.push_back(
          {line.substr(3, blank - 3), blank < line.size() ? line.substr(blank + 1) : "", {}});
      fenced = true;
    } else {
      if (!fenced && (lesson.blocks.empty() || lesson.blocks.back().kind != "text"))
        lesson.blocks.push_back({"text", "", {}});
      lesson.blocks.back().lines.push_back(line);
    }
  }
  if (fenced || lesson.title.empty())
    fail(ErrorKind::input, "{}: its last block has no end, or there is no title", file.name);
  return lesson;
}

Lesson own_lesson(const LessonFile& file) {
  Lesson lesson = parse_lesson(file);
  for (char& c : lesson.name)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '-';
  if (!begins(lesson.name, "own-")) lesson.name = "own-" + lesson.name;
  lesson.markdown = file.text;
  const std::vector<std::string> kinds = {"formula", "predict", "run",
                                          "expect",  "code",    "question"};
  for (const Block& block : lesson.blocks)
    if (block.kind != "text" && std::find(kinds.begin(), kinds.end(), block.kind) == kinds.end())
      fail(ErrorKind::input, "{}: a block of kind '{}'; those of your own lesson are {}", file.name,
           block.kind, fmt::join(kinds, ", "));
  return lesson;
}

const std::vector<Lesson>& lessons() {
  static const std::vector<Lesson> all = parse_lessons(true);
  return all;
}

const std::vector<Lesson>& side_pages() {
  static const std::vector<Lesson> all = parse_lessons(false);
  return all;
}

const std::vector<std::string>& languages() {
  static const std::vector<std::string> all = {"en", "zh"};
  return all;
}

const Lesson& in_language(const Lesson& lesson, const std::string& language) {
  check_choice("language", language, languages());
  static const std::map<std::string, Lesson> translations = [] {
    std::map<std::string, Lesson> all;
    for (const LessonFile& file : kLessonFiles)
      if (file.name.find('/') != std::string::npos) all.emplace(file.name, parse_lesson(file));
    return all;
  }();
  const auto found = translations.find(language + "/" + lesson.name + ".md");
  return found == translations.end() ? lesson : found->second;
}

const Lesson& find_lesson(const std::string& id) {
  std::vector<std::string> ids;
  for (const Lesson& lesson : lessons()) {
    if (lesson.id == id) return lesson;
    ids.push_back(lesson.id);
  }
  fail(ErrorKind::usage, "there is no lesson '{}'; choose from {}, all", id, fmt::join(ids, ", "));
}

}  // namespace linea::lab
