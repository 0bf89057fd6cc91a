// Evaluation of a model on a split; the only place where losses are converted to bits.
#pragma once

#include <vector>

#include "data/tasks/task.h"
#include "nn/model.h"
#include "parallel/ranks.h"

namespace linea {

// Consecutive tokens of a text.
struct Stretch {
  int64_t tokens = 0;  // scored
  double loss = 0;     // nats per token
};

struct Score {
  double loss = 0;  // nats per scored token
  double bits = 0;  // bits/dim of images, bits/char or bits/token of text: loss / ln 2
  // For text, the bits of all scored tokens / their bytes, whatever the tokens are; else 0.
  double bits_per_byte = 0;
  double accuracy = 0;  // fraction of scored positions whose most likely token is the target
  int64_t tokens = 0;   // scored positions
  // The share of the commonest class in a task with one answer, else 0: the accuracy of a model
  // that has learned nothing but the shares of the classes.
  double majority = 0;
  // The first window, the second, the next two, the next four, ... of a text; none where rows are left out.
  std::vector<Stretch> stretches;
};

double to_bits(double nats);
// The unit of a token's bits.
inline const char* bits_name(const TaskShape& shape) {
  if (shape.answer_tokens > 0) return "bits";
  if (shape.side > 0) return "bits/dim";
  if (shape.byte_pairs) return "bits/token";
  return shape.second_vocab_size > 0 ? "bits" : "bits/char";
}
inline bool is_text(const TaskShape& shape) { return !shape.token_bytes.empty(); }

// Rows per batch of evaluate(), chosen so that it needs no more memory than training with batches
// of `batch` rows: the larger of `batch` and the rows that fit in the memory of the gradients, at
// most 16384 tokens, at least 1.
int64_t evaluation_rows(const Model& model, const Task& task, int64_t batch);

// Evaluates `max_rows` rows of a split (0, or more than there are: all) by the parallel form,
// without dropout. The rows are the same in every call and evenly spaced, because images may be
// sorted by class. `batch`: the rows of a training batch. `progress`, where set, gets the rows done
// and their total. `ranks`: that share the rows; they get the same score, and where `progress`
// throws Interrupted (train/run/signals.h) on one, all do. `sequence_ranks` of them share the positions
// of a sequence.
Score evaluate(const Model& model, const Task& task, Split split, int64_t batch,
               int64_t max_rows = 0, const std::function<void(int64_t, int64_t)>& progress = {},
               Ranks* ranks = nullptr, int64_t sequence_ranks = 1);

// The tokens of a split of a text as one sequence: the state is carried through all of it, by the parallel form
// in parts, and no token is predicted without what came before. Errors: ErrorKind::usage, another task; a
// model with positions, or with an attention whose state is not of a fixed size.
Score evaluate_carried(const Model& model, const Task& task, Split split,
                       const std::function<void(int64_t, int64_t)>& progress = {});

}  // namespace linea
