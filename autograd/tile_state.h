// The running state of linear attention over a tile, and what a part of sequences keeps of it.
#pragma once

#include <limits>
#include <memory>
#include <vector>

#include "autograd/sequence_part.h"
#include "tensor/kernels.h"
#include "tensor/tensor.h"

namespace linea {

// S, z and their scales of one tile, or the gradients of these.
template <typename A>
struct TileState {
  TileState(int64_t batch_heads, int64_t features, int64_t values, bool scaled)
      : state(Tensor::zeros({batch_heads, features, values}, dtype_of(A{}))),
        key_sum(Tensor::zeros({batch_heads, features}, dtype_of(A{}))) {
    if (scaled)
      scale = Tensor::full({batch_heads, features}, dtype_of(A{}),
                           -std::numeric_limits<double>::infinity());
  }
  TileState(const TileState& all, int64_t first, int64_t count)
      : state(all.state.rows(first, count)), key_sum(all.key_sum.rows(first, count)) {
    if (all.scale.defined()) scale = all.scale.rows(first, count);
  }
  ChunkState<A> view() const {
    return {state.data<A>(), key_sum.data<A>(), scale.data_or_null<A>()};
  }
  std::vector<Tensor> tensors() const { return {state, key_sum, scale}; }
  Tensor state, key_sum, scale;
};

// What a part of sequences takes over in a call and keeps for its backward pass; first: the number of
// the first batch head that the pass has. Null: whole sequences.
struct PartStates {
  SequencePart* part = nullptr;
  std::shared_ptr<TakenStates> taken{};
  int64_t first = 0;
};

}  // namespace linea
