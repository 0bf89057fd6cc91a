#include "tensor/recurrent_state.h"

#include <limits>

namespace linea {

RecurrentState::RecurrentState(const Shape& key_sum, int64_t M, DType dtype, bool scaled)
    : key_sum_(Tensor::zeros(key_sum, sum_dtype(dtype))) {
  const int64_t B = key_sum[0], H = key_sum[1], F = key_sum[2];
  const int64_t capacity = scaled ? 0 : context().sizes.pending;
  if (capacity > 0 && dtype == DType::bf16 && M % kWideRows == 0) {
    high_ = Tensor::zeros({B, H, F, M}, DType::bf16);
    low_ = Tensor::zeros({B, H, F, M}, DType::bf16);
  } else {
    state_ = Tensor::zeros({B, H, F, M}, sum_dtype(dtype));
  }
  if (scaled)
    scale_ = Tensor::full(key_sum, sum_dtype(dtype), -std::numeric_limits<double>::infinity());
  if (capacity == 0) return;
  keys_ = Tensor::zeros({B, H, capacity, F}, dtype);
  values_ = Tensor::zeros({B, H, capacity, M}, dtype);
  count_ = Tensor::zeros({B, H}, DType::i32);
}

size_t RecurrentState::bytes() const {
  size_t total = 0;
  for (const Tensor* x : {&state_, &key_sum_, &scale_, &keys_, &values_, &count_, &high_, &low_})
    total += x->defined() ? x->bytes() : 0;
  return total;
}

}  // namespace linea
