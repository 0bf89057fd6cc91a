// Sequence parallelism: `sequence_ranks` neighboring ranks hold one sequence, each a part of its positions
// (autograd/sequence_part.h), and hand the states of linear attention on. Rank r has part r mod P of the
// rows of group r / P.
#pragma once

#include <memory>

#include "autograd/sequence_part.h"
#include "data/tasks/task.h"
#include "nn/model.h"
#include "parallel/ranks.h"
#include "train/config.h"

namespace linea {

// What a rank has of a step or of an evaluation.
struct RankCut {
  int groups = 1, group = 0;  // of ranks, which share the rows
  int parts = 1, part = 0;    // of the sequences; 1: whole ones
};
// Ranks null: a process by itself that stands for the rank that has most, to measure its memory. Error:
// ErrorKind::usage, a number of ranks that `sequence_ranks` does not divide.
RankCut cut_of(const Ranks* ranks, int64_t sequence_ranks);

// The positions of part `part` of `parts`: multiples of 256, or of 64 in short sequences.
Share part_positions(int64_t length, int part, int parts);

// Errors: ErrorKind::usage, with what to do: sequences too short; a model that reads later positions, or has
// an attention without a state of fixed size.
void check_sequence_ranks(const Model& model, const Task& task, int64_t parts);

// That of a rank; null: whole sequences. Where other ranks have the other parts, all ranks call it together.
std::unique_ptr<SequencePart> make_part(Ranks* ranks, const RankCut& cut, int64_t length);

// The positions of a batch that a part has.
Batch positions_of(const Batch& whole, const SequencePart& part);
// Sets what a part reads of all positions of its batch.
void take_batch(SequencePart& part, const Task& task, const Batch& whole);

}  // namespace linea
