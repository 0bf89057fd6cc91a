#include "autograd/key_slots.h"
#include "autograd/ops.h"
#include "autograd/sequence_part.h"
#include "tensor/ops.h"

namespace linea {
namespace {

// Positions [first, first + count) of x [B,N,C].
Tensor positions_of(const Tensor& x, int64_t first, int64_t count) {
  const int64_t B = x.size(0), N = x.size(1), C = x.size(2);
  return read_slots(x.reshape({B, 1, N, C}), first, count).reshape({B, count, C});
}

// x with `rows` [B,R,C] before or after it.
Tensor extended(const Tensor& x, const Tensor& rows, bool before) {
  const int64_t N = x.size(1), R = rows.size(1);
  if (R == 0) return x;
  const Tensor with_x({x.size(0), N + R, x.size(2)}, x.dtype());
  for (int64_t b = 0; b < x.size(0); ++b) {
    ops::copy_into(rows.select(b), with_x.select(b).rows(before ? 0 : N, R));
    ops::copy_into(x.select(b), with_x.select(b).rows(before ? R : 0, N));
  }
  return with_x;
}

// The rows before a part, which its convolution reads, [B,R,C]; R = 0 of the first part.
Tensor rows_before(SequencePart& part, const Tensor& x, int64_t reach) {
  require(x.size(1) >= reach, "a convolution that reads {} rows back has a part of {} rows", reach,
          x.size(1));
  if (!part.is_last()) part.hand_on(positions_of(x, x.size(1) - reach, reach), PartPass::forward);
  const Tensor rows({x.size(0), part.is_first() ? 0 : reach, x.size(2)}, x.dtype());
  if (!part.is_first()) part.receive(rows, PartPass::forward);
  return rows;
}

// The gradients of x and of w by those of y [B,N,C], of a part of sequences: x as above, `before` its rows
// before. x feeds rows after the part, whose gradients the next part has.
Gradients gradients_of_part(SequencePart& part, const Tensor& x, const Tensor& before,
                            const Tensor& w, ConvolutionShape offsets, const Tensor& dy) {
  const int64_t reach = offsets.ring() - 1, N = x.size(1);
  if (!part.is_first()) part.hand_on(positions_of(dy, 0, reach), PartPass::back);
  const Tensor after = Tensor::zeros({x.size(0), reach, x.size(2)}, x.dtype());
  part.receive(after, PartPass::back);
  offsets.first = part.first();
  const Tensor dx =
      ops::convolution_backward(extended(x, after, false), w, offsets, extended(dy, after, false))
          .first;
  offsets.first -= before.size(1);
  const Tensor none = Tensor::zeros(before.shape(), dy.dtype());
  const Tensor dw =
      ops::convolution_backward(extended(x, before, true), w, offsets, extended(dy, none, true))
          .second;
  return {positions_of(dx, 0, N), dw};
}

// With the rows, which outlive the shape.
ConvolutionShape with_rows(ConvolutionShape offsets, const ConvolutionRows& rows, const Var& x) {
  if (!rows.from.defined()) return offsets;
  for (const Tensor& each : {rows.from, rows.to})
    require(each.shape() == Shape({x.size(0), x.size(1), offsets.count}),
            "causal_convolution: the rows {} do not fit {}", each.shape(), x.shape());
  offsets.from = rows.from.data<int32_t>();
  offsets.to = rows.to.data<int32_t>();
  return offsets;
}

}  // namespace

// y[b,n] = sum_t w[t] x[b, n - o_t];  dx[b,n] = sum_t w[t] dy[b, n + o_t],
// dw[t] = sum_{b,n} dy[b,n] x[b, n - o_t]
Var causal_convolution(const Var& x, const Var& w, const ConvolutionShape& offsets,
                       const ConvolutionRows& rows) {
  SequencePart* const part = sequence_part();
  if (part == nullptr) {
    const ConvolutionShape shape = with_rows(offsets, rows, x);
    return Var::from_op("causal_convolution", ops::convolution(x.value(), w.value(), shape), {x, w},
                        [saved = x.saved(), w = w.value(), shape, rows](const Tensor& dy) {
                          const auto [dx, dw] =
                              ops::convolution_backward(ops::cast(saved, dy.dtype()), w, shape, dy);
                          return Gradients{dx, dw};
                        });
  }
  const Tensor before = rows_before(*part, x.value(), offsets.ring() - 1);
  ConvolutionShape own = offsets;
  own.first = part->first() - before.size(1);
  const Tensor y = ops::convolution(extended(x.value(), before, true), w.value(), own);
  return Var::from_op("causal_convolution", positions_of(y, before.size(1), x.size(1)), {x, w},
                      [part, saved = x.saved(), before, w = w.value(), offsets](const Tensor& dy) {
                        return gradients_of_part(*part, ops::cast(saved, dy.dtype()),
                                                 ops::cast(before, dy.dtype()), w, offsets, dy);
                      });
}

}  // namespace linea
