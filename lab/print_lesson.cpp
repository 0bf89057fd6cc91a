// A lesson as text for a terminal.
#include <cstdio>

#include "base/error.h"
#include "lab/expect.h"
#include "lab/run.h"
#include "train/record/table.h"

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
void print_text(const std::vector<std::string>& lines) {
  std::string paragraph;
  const auto flush = [&] {
    if (!paragraph.empty()) print_wrapped(paragraph, paragraph[0] == '-' ? 2 : 0);
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

  int print() {
    const std::string title = lesson_.id + ". " + lesson_.title;
    fmt::print("{}\n{}\n", title, std::string(title.size(), '='));
    for (const Block& block : lesson_.blocks) {
      if (block.kind == "text") print_text(block.lines);
      if (block.kind == "formula") print_indented(block.lines);
      if (block.kind == "predict") predict(block);
      if (block.kind == "run") run(block);
      if (block.kind == "expect") expect(block);
      if (block.kind == "code") code(block);
      if (block.kind == "question") question(block);
    }
    if (!answer_.empty()) {
      fmt::print("\nAnswer to the prediction\n------------------------\n");
      print_wrapped(answer_, 0);
    }
    fmt::print("\n");
    return wrong_;
  }

 private:
  void predict(const Block& block) {
    print_text(block.plain());
    for (const std::string& answer : block.values("answer")) answer_ = answer;
    print_wrapped("(The answer is at the end.)", 0);
  }

  void run(const Block& block) {
    const std::vector<std::string> shorter = block.values("quick");
    command_ = options_.quick && !shorter.empty() ? shorter.front() : block.plain().at(0);
    is_short_ = command_ != block.plain().at(0);
    fmt::print("    $ {}\n\n", command_);
    std::fflush(stdout);
    output_ = run_command(command_);
    std::string line;
    for (const char c : output_.text) {
      if (c != '\n') {
        line += c;
        continue;
      }
      print_indented({line});
      line.clear();
    }
    fmt::print("\n    ({:.1f} s)\n", output_.seconds);
    for (const std::string& longer : block.values("long"))
      print_wrapped("With more time:  " + longer, 4);
    if (output_.exit_code != 0) report(fmt::format("exit code {}", output_.exit_code));
  }

  void expect(const Block& block) {
    const bool any_length = block.about == "exact" || block.about == "theory";
    if (is_short_ && !any_length && block.about != "fails") return;  // numbers of the whole run
    const std::string reason = mismatch(block.about, expected(block), output_.text);
    if (!reason.empty()) return report(reason);
    fmt::print("    As expected ({}).\n", block.about);
  }

  // The shorter version of `linea verify` names checks: those that fail are some of all.
  std::vector<std::string> expected(const Block& block) const {
    const size_t at = command_.find(" --check ");
    if (!is_short_ || block.about != "fails" || at == std::string::npos) return block.lines;
    const std::string asked = command_.substr(at + 9);
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
    print_text(text);
  }

  void report(const std::string& reason) {
    ++wrong_;
    std::fflush(stdout);
    fmt::print(stderr, "linea: lesson {}: `{}`: {}\n", lesson_.id, command_, reason);
  }

  const Lesson& lesson_;
  RunOptions options_;
  std::string command_, answer_;
  bool is_short_ = false;
  Output output_;
  int wrong_ = 0;
};

}  // namespace

int print_lesson(const Lesson& lesson, const RunOptions& options) {
  return Page(lesson, options).print();
}

}  // namespace linea::lab
