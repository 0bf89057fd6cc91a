// The `retrieval` task: write associations into a memory, then query one of them. With n keys and
// n values (`associations`), one position holds one association, its key in
// Batch::inputs and its value in Batch::second_inputs:
//   inputs         k1 .. kw  q       keys, 0 .. n - 1
//   second_inputs  v1 .. vw  n       values, 0 .. n - 1; n stands for "no value"
//   targets        -1 .. -1  a       the value that was written last with key q
// Only the last position is scored: a model without memory scores log n.
//   capacity  w = n writes; the keys are a random permutation, and so are the values
//   edit      (`repeat_keys`) w = 2n writes; keys and values are drawn independently, so that
//             keys repeat and a later value replaces an earlier one
// The query is the key of a random write, so the edit task queries keys in proportion to their
// writes.
//
// Source: Schlag, Irie, Schmidhuber 2021, "Linear Transformers Are Secretly Fast Weight
// Programmers", section 6.1, settings 1 and 2, with the counts and distributions of its public code
// (github.com/ischlag/fast-weight-transformers, synthetic/). Differences: the paper trains one
// layer by squared error against fixed one-hot values, this task suits any model that predicts
// tokens; and the paper evaluates all keys of a few sequences (in setting 2 of n writes), here a
// split has many sequences, drawn as in training, with one query each.
#pragma once

#include "data/tasks/task.h"

namespace linea {

TaskEntry retrieval_task();

}  // namespace linea
