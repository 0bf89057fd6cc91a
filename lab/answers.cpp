#include "lab/answers.h"

#include <cmath>
#include <cstdlib>
#include <sstream>

#include "base/error.h"
#include "base/settings.h"
#include "lab/lesson.h"
#include "train/record/table.h"

namespace linea::lab {
namespace {

constexpr double kTolerance = 0.005;  // of answers that are rounded, as a share

struct Question {
  const Block* block;
  std::string kind, value;  // "number" and what is right
};

Question find_question(const std::string& id) {
  std::vector<std::string> ids;
  for (const Lesson& lesson : lessons())
    for (const Block& block : lesson.blocks) {
      if (block.kind != "question") continue;
      std::istringstream about(block.about);
      std::string found, kind, value;
      about >> found >> kind >> value;
      if (found == id) return {&block, kind, value};
      if (kind == "number") ids.push_back(found);
    }
  fail(ErrorKind::usage, "there is no exercise '{}'; those with a number as their answer are {}",
       id, fmt::join(ids, ", "));
}

}  // namespace

bool check_answer(const std::string& id, const std::string& answer, int64_t hint) {
  const Question question = find_question(id);
  require(question.kind == "number",
          "exercise {} has no number as its answer: think about it, or run it", id);
  const double right = std::strtod(question.value.c_str(), nullptr),
               given = parse_number<double>("ANSWER", answer);
  // Whole numbers must be met.
  const bool whole = right == std::round(right) && question.value.find('.') == std::string::npos;
  if (whole ? given == right : std::abs(given - right) <= kTolerance * std::abs(right)) {
    fmt::print("{}: right\n", id);
    return true;
  }
  const std::vector<std::string> hints = question.block->values("hint"),
                                 reads = question.block->values("read");
  const auto index = static_cast<size_t>(hint - 1);
  if (index < hints.size())
    print_wrapped(fmt::format("{}: not yet. {}", id, hints[index]), 2);
  else
    print_wrapped(fmt::format("{}: not yet.{}{}", id, reads.empty() ? "" : " Read ",
                              reads.empty() ? "" : reads.front()),
                  2);
  return false;
}

}  // namespace linea::lab
