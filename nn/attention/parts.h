// What several attentions of this folder have.
#pragma once

#include <memory>
#include <vector>

#include "autograd/key_slots.h"
#include "base/random.h"
#include "base/scoped.h"
#include "nn/attention.h"
#include "tensor/context.h"

namespace linea {

// AttentionEntry::make of a class that its options are enough for.
template <typename A>
std::unique_ptr<Attention> construct(const AttentionOptions& options) {
  return std::make_unique<A>(options);
}

// q.k / sqrt(D) of q [B,H,n,D] and k [B,H,m,D], on the tape: [B,H,n,m].
Var scaled_scores(const Var& q, const Var& k);

// A constant [B,H,rows,columns] of element(bh, row, column); B, H and dtype are those of `like`.
template <typename Element>
Var constant_matrix(const Var& like, int64_t rows, int64_t columns, const Element& element) {
  std::vector<double> values;
  for (int64_t bh = 0; bh < like.size(0) * like.size(1); ++bh)
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < columns; ++j) values.push_back(element(bh, i, j));
  return Var(Tensor::from(values, {like.size(0), like.size(1), rows, columns}, like.dtype()));
}

// FLOPs of softmax attention whose positions read so many keys: forward Q K^T and A V; backward Q
// K^T again, dV, dA, dQ, dK.
AttentionFlops softmax_flops(const AttentionOptions& options, double keys);

// Slots for the keys and values of a recurrent form.
KeySlots key_slots(const AttentionOptions& options, int64_t batch, int64_t slots, DType dtype);

// What decisions are defined by (autograd/decisions.h): a product of rows that are rounded to
// float, summed in double in order, and the indices of the `count` largest scores, of equals the
// first.
double rounded_product(const double* a, const double* b, int64_t size);
std::vector<int32_t> largest_first(const std::vector<double>& scores, int64_t count);

// N(0, stddev^2), element n by number n of the stream.
void write_normal(const RandomStream& stream, double stddev, const Tensor& into);
// A parameter of N(0, stddev^2), [H,...], or [1,...] of all heads. `number` distinguishes those of an
// attention.
Var normal_parameter(const AttentionOptions& options, const Shape& shape, double stddev,
                     uint64_t number = 0);

// While one lives, nothing is rounded to bf16, neither factors nor what is saved: scores of keys that are
// rounded sums of rounded rows have no digits left.
struct ExactProducts : Scoped<FloatProducts> {
  ExactProducts() : Scoped(context().products, FloatProducts::exact) {}
};

}  // namespace linea
