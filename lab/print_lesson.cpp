// A lesson as text for a terminal.
#include <cstdio>

#include "base/error.h"
#include "lab/expect.h"
#include "lab/markdown.h"
#include "lab/run.h"
#include "train/record/table.h"
#include "train/timing.h"

namespace linea::lab {
namespace {

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

void print_indented(const std::vector<std::string>& lines) {
  for (const std::string& line : lines) fmt::print("{}{}\n", line.empty() ? "" : "    ", line);
}

// Markdown: paragraphs are wrapped, headings and lists stay lines.
void print_text(const std::vector<std::string>& lines, const MeasuredText& measured) {
  std::string paragraph;
  const auto flush = [&] {
    if (!paragraph.empty())
      print_wrapped(plain_text(paragraph, measured), paragraph[0] == '-' ? 2 : 0);
    paragraph.clear();
  };
  for (const std::string& raw : lines) {
    const std::string line = replaced(raw, "**", "");
    if (line.empty() || line[0] == '#' || line[0] == '-') flush();
    if (line.empty()) {
      fmt::print("\n");
    } else if (line[0] == '#') {
      const std::string title = line.substr(line.find_first_not_of("# "));
      fmt::print("{}\n{}\n", title, std::string(title.size(), '-'));
    } else {
      paragraph += (paragraph.empty() ? "" : " ") + line;
    }
  }
  flush();
}

class Page {
 public:
  Page(const Lesson& lesson, const RunOptions& options) : lesson_(lesson), options_(options) {}

  Printed print() {
    const Stopwatch watch;
    const std::string title = lesson_.id + ". " + lesson_.title;
    fmt::print("{}\n{}\n", title, std::string(title.size(), '='));
    for (const Block& block : lesson_.blocks) {
      if (block.kind == "text") print_text(block.lines, measured_);
      if (block.kind == "formula") print_indented(block.lines);
      if (block.kind == "predict") predict(block);
      if (block.kind == "run") run(block);
      if (block.kind == "expect") expect(block);
      if (block.kind == "code") code(block);
      if (block.kind == "question") question(block);
    }
    if (!answer_.empty()) {
      fmt::print("\nAnswer to the prediction\n------------------------\n");
      print_wrapped(plain_text(answer_, measured_), 0);
    }
    fmt::print("\n");
    printed_.seconds = watch.seconds();
    return printed_;
  }

 private:
  void predict(const Block& block) {
    print_text(block.plain(), measured_);
    for (const std::string& answer : block.values("answer")) answer_ = answer;
    print_wrapped("(The answer is at the end.)", 0);
  }

  void run(const Block& block) {
    const std::vector<std::string> shorter = block.values("quick");
    const std::string whole = block.plain().at(0);
    printed_.runs.push_back({options_.quick && !shorter.empty() ? shorter.front() : whole});
    Ran& ran = printed_.runs.back();
    ran.quick = ran.command != whole;
    fmt::print("    $ {}\n\n", ran.command);
    std::fflush(stdout);
    ran.output = run_command(ran.command);
    std::string line;
    for (const char c : ran.output.text) {
      if (c != '\n') {
        line += c;
        continue;
      }
      print_indented({line});
      line.clear();
    }
    fmt::print("\n    ({:.1f} s)\n", ran.output.seconds);
    for (const std::string& longer : block.values("long"))
      print_wrapped("With more time:  " + longer, 4);
    if (ran.output.exit_code != 0) report(fmt::format("exit code {}", ran.output.exit_code));
  }

  void expect(const Block& block) {
    const bool any_length = block.about == "exact" || block.about == "theory";
    Ran& ran = printed_.runs.back();
    if (ran.quick && !any_length && block.about != "fails") return;  // numbers of the whole run
    const std::string reason = mismatch(block.about, expected(block), ran.output.text);
    if (!reason.empty()) return report(reason);
    ran.as_expected.push_back(block.about);
    fmt::print("    {}\n", agreement(block));
  }

  // The shorter version of `linea verify` names checks: those that fail are some of all.
  std::vector<std::string> expected(const Block& block) const {
    const Ran& ran = printed_.runs.back();
    const size_t at = ran.command.find(" --check ");
    if (!ran.quick || block.about != "fails" || at == std::string::npos) return block.lines;
    const std::string asked = ran.command.substr(at + 9);
    std::vector<std::string> lines = block.lines;
    std::erase_if(lines, [&](const std::string& line) { return line.rfind(asked, 0) != 0; });
    return lines;
  }

  void code(const Block& block) {
    const size_t blank = block.about.find(' ');
    fmt::print("    {}:\n\n", block.about.substr(0, blank));
    print_indented(block.lines);
  }

  void question(const Block& block) {
    std::vector<std::string> text = block.plain();
    const std::string id = block.about.substr(0, block.about.find(' '));
    if (!text.empty()) text.front() = id + "  " + text.front();
    print_text(text, measured_);
  }

  void report(const std::string& reason) {
    Ran& ran = printed_.runs.back();
    ++printed_.wrong;
    if (ran.differs.empty()) ran.differs = reason;
    std::fflush(stdout);
    fmt::print(stderr, "linea: lesson {}: `{}`: {}\n", lesson_.id, ran.command, reason);
  }

  const Lesson& lesson_;
  RunOptions options_;
  std::string answer_;
  Printed printed_;
  // A number of the last output.
  MeasuredText measured_ = [this](const std::string& place, const std::string& text) {
    if (printed_.runs.empty()) return text;
    const std::string word = word_at(place, printed_.runs.back().output.text);
    return word.empty() ? text : word;
  };
};

}  // namespace

Printed print_lesson(const Lesson& lesson, const RunOptions& options) {
  return Page(in_language(lesson, options.language), options).print();
}

}  // namespace linea::lab
