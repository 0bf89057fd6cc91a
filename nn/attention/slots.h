// Shared by attentions that compress positions to slots: those without a causal form, and their parameters.
#pragma once

#include <memory>

#include "base/scoped.h"
#include "nn/attention/parts.h"
#include "tensor/context.h"

namespace linea {

class BidirectionalAttention : public Attention {
 public:
  std::unique_ptr<AttentionState> start(int64_t batch, DType dtype) const override;
  Tensor step(AttentionState& state, const AttentionInputs& in) const override;

 protected:
  // traits.not_causal says why there is no causal form.
  BidirectionalAttention(const AttentionOptions& options, const AttentionTraits& traits)
      : Attention(traits), options_(options) {}
  // Error: a causal mask.
  void require_bidirectional(const AttentionMask& mask) const;

  const AttentionOptions options_;

 private:
  [[noreturn]] void refuse() const;
};

// While one lives, nothing is rounded to bf16, neither factors nor what is saved: scores of keys that are
// rounded sums of rounded rows have no digits left.
struct ExactProducts : Scoped<FloatProducts> {
  ExactProducts() : Scoped(context().products, FloatProducts::exact) {}
};

// A parameter of N(0, stddev^2), [H,...], or [1,...] of all heads. `number` distinguishes those of an
// attention.
Var normal_parameter(const AttentionOptions& options, const Shape& shape, double stddev,
                     uint64_t number = 0);
// The matrices of heads [H,rows,columns] with 1 on their diagonals.
Var identity_parameter(const AttentionOptions& options, int64_t rows, int64_t columns);

// FLOPs of softmax attention from each of N positions to m slots, or back: forward Q K^T and A V; backward
// Q K^T again, dV, dA, dQ, dK.
AttentionFlops slot_flops(int64_t slots, int64_t key_size, int64_t value_size);

}  // namespace linea
