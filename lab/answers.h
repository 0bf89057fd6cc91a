// Answers to the exercises of the lessons.
#pragma once

#include <cstdint>
#include <string>

namespace linea::lab {

// Checks an answer to exercise `id`, such as 3.1, and says so on stdout: right; or wrong, with the
// `hint`-th hint (1, 2; beyond them, where to read) in a language. -> whether it is right. Errors:
// ErrorKind::usage, no such exercise, one whose answer is no number, or an answer that is none.
bool check_answer(const std::string& id, const std::string& answer, int64_t hint,
                  const std::string& language);

// How far a number may be from the right one, as a share of it: not at all where that is whole.
double answer_share(const std::string& right);

}  // namespace linea::lab
