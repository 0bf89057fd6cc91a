#include "lab/answers.h"

#include <cmath>
#include <cstdlib>
#include <sstream>

#include "base/error.h"
#include "base/settings.h"
#include "lab/expect.h"
#include "lab/lesson.h"
#include "lab/markdown.h"
#include "lab/run.h"
#include "train/record/table.h"

namespace linea::lab {
namespace {

constexpr double kTolerance = 0.005;  // of answers that are rounded, as a share

struct Question {
  const Block* block;
  std::string kind, value;  // "number" and what is right, "file" or "text"
};

Question find_question(const std::string& id, const std::string& language) {
  std::vector<std::string> ids;
  for (const Lesson& lesson : lessons())
    for (const Block& block : in_language(lesson, language).blocks) {
      if (block.kind != "question") continue;
      std::istringstream about(block.about);
      std::string found, kind, value;
      about >> found >> kind >> value;
      if (found == id) return {&block, kind, value};
      if (kind != "text") ids.push_back(found);
    }
  fail(ErrorKind::usage, "there is no exercise '{}'; those that can be checked are {}", id,
       fmt::join(ids, ", "));
}

bool is_right_number(const Question& question, const std::string& answer) {
  const double right = std::strtod(question.value.c_str(), nullptr);
  return std::abs(parse_number<double>("ANSWER", answer) - right) <=
         answer_share(question.value) * std::abs(right);
}

bool is_right_file(const Question& question, const std::string& file) {
  std::istringstream command(question.block->values("run").at(0));
  std::vector<std::string> words;
  for (std::string word; command >> word;) words.push_back(word == "FILE" ? file : word);
  const Output output = run_words(words);
  if (output.exit_code != 0)
    fail(static_cast<ErrorKind>(output.exit_code), "{}: the exercise's command cannot use it",
         file);
  const std::string reason = mismatch("ratio", question.block->values("holds"), output.text);
  if (!reason.empty()) fmt::print("{}\n", reason);
  return reason.empty();
}

}  // namespace

double answer_share(const std::string& right) {
  const double value = std::strtod(right.c_str(), nullptr);
  return value == std::round(value) && right.find('.') == std::string::npos ? 0 : kTolerance;
}

bool check_answer(const std::string& id, const std::string& answer, int64_t hint,
                  const std::string& language) {
  const Question question = find_question(id, language);
  require(question.kind != "text",
          "exercise {} is one to think about, or to run: nothing is checked", id);
  if (question.kind == "number" ? is_right_number(question, answer)
                                : is_right_file(question, answer)) {
    fmt::print("{}: right\n", id);
    return true;
  }
  const std::vector<std::string> hints = question.block->values("hint"),
                                 reads = question.block->values("read");
  const auto as_written = [](const std::string&, const std::string& text) { return text; };
  const auto index = static_cast<size_t>(hint - 1);
  if (index < hints.size())
    print_wrapped(fmt::format("{}: not yet. {}", id, plain_text(hints[index], as_written)), 2);
  else
    print_wrapped(fmt::format("{}: not yet.{}{}", id, reads.empty() ? "" : " Read ",
                              reads.empty() ? "" : reads.front()),
                  2);
  return false;
}

}  // namespace linea::lab
