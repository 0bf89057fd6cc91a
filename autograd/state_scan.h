// States of sums by a scan over the parts of sequences (autograd/sequence_part.h), where each part has the
// state of its own positions: Blelloch 1990, "Prefix sums and their applications".
//
//   X = (S, z, scale, L)     S [F,M] and z [F] of a batch head, times exp(scale) a feature; L: the sum of its log
//                            decays
//   A (+) B                  scale = max(A.scale + L_B, B.scale), S and z rescaled and added, L_A + L_B
//
// An empty state, scale -infinity, is neutral to the bit. In floating point (+) does not associate: the bits are
// a function of the number of parts.
#pragma once

#include <vector>

#include "autograd/sequence_part.h"

namespace linea {

// states: S [BH,F,M], z [BH,F] and scale [BH,F], or undefined: sums without scales. Of this part's own
// positions; they become those of all parts before this one, in a backward pass after it. log_decay: L [BH] of
// this part; undefined: 0.
void scan_states(SequencePart& part, PartPass pass, const std::vector<Tensor>& states,
                 const Tensor& log_decay);

}  // namespace linea
