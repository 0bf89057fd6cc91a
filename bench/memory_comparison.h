// What a gradient of causal linear attention has to keep, by four ways to get it. The first three
// are written from the formulas on the tape, to be read and compared with linear_attention
// (autograd/linear_attention.h), which is the fourth.
//
// A state S_t = sum_{j <= t} phi(k_j) [v_j, 1]^T is F (M + 1) numbers: a position and head of F = M
// = 64 needs 256 times the memory of its key.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "nn/attention.h"

namespace linea::memory_comparison {

enum class Way {
  all_states,    // the recurrence as it stands, on the tape: the state of every position
  chunk_states,  // matrices inside a chunk, on the tape: the state of every chunk, and C x C
                 // weights in it
  segments,      // the states between segments; inside one, values are recomputed, then on the tape
  recomputed,    // linear_attention: no states saved, all recomputed in two sweeps
};
const std::vector<Way>& ways();
// "naive autograd (every state saved)"
std::string name_of(Way way);

// One sequence. x [N,H,D], position by position; those of linear_attention() are [1,H,N,D].
struct Inputs {
  Tensor q, k, v, dy;
  Inputs heads_first() const;
};
struct Results {
  Tensor y, dq, dk, dv;
  Results heads_first() const;
};

// linear with elu, or performer with positive features; heads and sizes in the options. The engine
// takes its inputs heads_first(), and gives results so.
Results compute(Way way, const AttentionOptions& options, const Inputs& in);

// Bytes of states that this way keeps of N positions, to be looked at before it is tried.
double state_bytes(Way way, const AttentionOptions& options, int64_t N);

}  // namespace linea::memory_comparison
