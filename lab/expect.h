// What a lesson says of the output of its commands, checked:
//
//   exact    these lines, one after the other somewhere in the output; blanks count as one
//   fails    the checks of `linea verify` that fail, all of them, one a line
//   theory, ratio, recorded   numbers of the output within bounds, one a line:
//
//     softmax; 8192 @4 / softmax; 512 @4 from 6 to 30
//
//   the 4th word of the first line that begins with 8192 after one that begins with softmax,
//   divided by that of the line that begins with 512
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "lab/lesson.h"

namespace linea::lab {

// Empty: the output is as expected; else what is not. Error: ErrorKind::input, an expectation that
// cannot be read.
std::string mismatch(const std::string& kind, const std::vector<std::string>& expected,
                     const std::string& output);

// A word of an output, from 0, as "softmax; 8192 @4" names it.
struct Place {
  size_t line = 0, column = 0;
  bool exists = false;
};
// Error: ErrorKind::input, a name without a column.
Place find_place(const std::string& name, const std::string& output);
// The word itself; empty: the output has none there.
std::string word_at(const std::string& name, const std::string& output);

// What to say of an output that is as expected.
std::string agreement(const Block& block);

}  // namespace linea::lab
