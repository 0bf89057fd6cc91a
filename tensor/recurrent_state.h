// The state of linear attention in recurrent form, opaque to the layers above: each backend stores
// it as its kernels read it fastest.
#pragma once

#include "tensor/kernels.h"
#include "tensor/tensor.h"

namespace linea {

// S = sum phi(k)^T v [B,H,F,M], z = sum phi(k) [B,H,F], initially zero. Where `scaled` (log
// features, weights or decays), with a scale per feature (tensor/cpu/chunk.h). On a device that
// delays updates (WorkSizes::pending), with the pending keys and values; then S with bf16 keys is
// stored as split bf16.
class RecurrentState {
 public:
  // key_sum: [B,H,F]; M: size of a value; dtype: of q, k and v
  RecurrentState(const Shape& key_sum, int64_t M, DType dtype, bool scaled);
  size_t bytes() const;

  // For tests; pending updates are not part of them.
  const Tensor& key_sum() const { return key_sum_; }
  const Tensor& scale() const { return scale_; }

  // Error: T is not the dtype.
  template <typename T>
  RecurrentView<T> view() const {
    using A = Accumulator<T>;
    const ChunkState<A> sums{state_.data_or_null<A>(), key_sum_.data<A>(),
                             scale_.data_or_null<A>()};
    if (!count_.defined()) return {sums, {}};
    return {sums,
            {keys_.data<T>(), values_.data<T>(), count_.data<int32_t>(), keys_.size(2),
             high_.data_or_null<BFloat16>(), low_.data_or_null<BFloat16>()}};
  }

 private:
  Tensor state_, key_sum_, scale_;
  Tensor keys_, values_, count_;  // pending updates
  Tensor high_, low_;             // S as split bf16, instead of state_
};

}  // namespace linea
