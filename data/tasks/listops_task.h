// The `listops` task: the value of a nested expression over the digits, such as
//   [MAX 4 [MIN 2 7] 0] = 4
// Tokens are the digits, "[MIN", "[MAX", "[MED", "[SM" and "]"; then `answer_tokens` answer tokens,
// of which the last one has the value as target, and padding. MED is the median, for an even number
// of operands the mean of the middle two without its fraction; SM is the sum modulo 10.
//
//   tree(d)  d < depth and r > 0.25, or d = depth: a digit; otherwise an operator of 2 to `args`
//            operands tree(d + 1); r, digits, operators and counts are uniform; starts with tree(1)
//
// A tree of a length outside of (min, max) is drawn again. A sequence is a function of the seed,
// the split and its number: 96,000 train, 2,000 val, 2,000 test.
//
// Source: Nangia, Bowman 2018, "ListOps: a diagnostic dataset for latent tree learning", in the
// form of Tay 2020, "Long Range Arena", section 2.2.1, without parentheses.
#pragma once

#include <vector>

#include "data/tasks/task.h"

namespace linea {

namespace listops {
// Input tokens after the ten digits.
enum Token : int32_t { min = 10, max, median, sum, close, padding, answer, count };
// The value of an operator, `min` to `sum`, on digits.
int32_t apply(int32_t op, std::vector<int32_t> operands);
}  // namespace listops

TaskEntry listops_task();

}  // namespace linea
