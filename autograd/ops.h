// The differentiable ops on whole tensors, grouped by .cpp file, where each op's backward follows
// its forward. Shapes and errors as in tensor/ops.h. The ops of attention have headers of their
// own: linear_attention.h, delta_attention.h, softmax_attention.h.
#pragma once

#include "autograd/var.h"
#include "tensor/formulas.h"
#include "tensor/kernel_shapes.h"

namespace linea {

// arithmetic.cpp
Var add(const Var& a, const Var& b);
Var multiply(const Var& a, const Var& b);
Var scale(const Var& x, double factor);
Var add_rows(const Var& x, const Var& row);  // x [..., C...] + row [C...]: biases, positions
Var cast(const Var& x, DType dtype);         // f32 as bf16, or back
std::vector<Var> cast_all(const std::vector<Var>& xs, DType dtype);  // by one launch
Var pointwise(Pointwise f, const Var& x);
Var exp(const Var& x);
// Identity at rate 0; otherwise the mask follows from (StepParams seed and step, stream_id).
Var dropout(const Var& x, float rate, uint32_t stream_id);
// x [B,H,N,...] with zeros in the padding, which may hold anything; valid as in AttentionMask.
Var clear_padding(const Var& x, const Tensor& valid);

// matrices.cpp
Var matmul(const Var& a, const Var& b, bool transpose_a = false, bool transpose_b = false);
Var reshape(const Var& x, const Shape& shape);
Var rows(const Var& x, int64_t first, int64_t count);     // of the outermost axis
Var select(const Var& x, int64_t index);                  // of the outermost axis, which it drops
Var concatenate(const std::vector<Var>& xs);              // along the outermost axis
Var columns(const Var& x, int64_t first, int64_t count);  // of the innermost axis
Var join_columns(const std::vector<Var>& xs);  // one after the other; the outer axes are equal
Var join_rows(const std::vector<Var>& xs);     // [B,H,N_t,D] -> [B,H,sum of N_t,D]
// x [B,N,parts*H*D] -> [parts,B,H,N,D], and the inverse of one part: [B,H,N,D] -> [B,N,H*D]
Var split_heads(const Var& x, int64_t parts, int64_t heads);
Var merge_heads(const Var& x);
// x [...,N,M] of L x = e, L [...,N,N] with a diagonal of 1, read below it only.
Var solve_unit_lower(const Var& l, const Var& e);

// normalization.cpp
Var layer_norm(const Var& x, const Var& weight, const Var& bias);  // bias may be undefined
Var softmax(const Var& x);
Var normalize(const Var& x);                 // rows divided by their sums; a sum of 0 gives 0
Var unit_rows(const Var& x, double length);  // of this Euclidean length; a row of zeros stays
Var mask_causal(const Var& x, double value);

// layers.cpp: the branches of a Transformer block, each a single op that works on a few hundred
// rows at a time: intermediate results stay in cache, and only the tensors named as saved remain
// for the backward. Weights are [out,in], in the dtype of x; any bias may be undefined.
struct LinearVars {
  Var weight, bias;
  Tensor panels{};  // the weight packed for sampling (ops::pack_panels_into), or undefined
};
using NormVars = LinearVars;  // without panels
// linear(norm(x)), x [...,in] -> [...,out]; saved: x
Var norm_linear(const Var& x, const NormVars& norm, const LinearVars& linear);
struct Dropout {  // as in dropout()
  float rate = 0;
  uint32_t stream_id = 0;
};
// residual + dropout(linear(x)), an undefined residual is 0; saved: x
Var add_linear(const Var& residual, const Var& x, const LinearVars& linear, const Dropout& = {});
// residual + dropout(linear(n(y) silu(gate))), y and gate [...,C] of one shape; n: the RMS norm of
// each of `heads` heads with norm [C], or the identity where that is undefined; saved: y and gate
Var add_gated_linear(const Var& residual, const Var& y, const Var& norm, const Var& gate,
                     int64_t heads, const LinearVars& linear, const Dropout& = {});
// residual + dropout(down(gelu(up(norm(x))))); saved: x and the result of `up`
Var add_feed_forward(const Var& residual, const Var& x, const NormVars& norm, const LinearVars& up,
                     const LinearVars& down, const Dropout& = {});

// convolution.cpp
// Causal and depthwise: x [B,N,C], w [count,C], both of one dtype. `offsets`: without B, N, C. Where
// x has only some positions of its sequences, `rows` are ConvolutionShape::from and to, i32
// [B,N,count].
struct ConvolutionRows {
  Tensor from{}, to{};
};
Var causal_convolution(const Var& x, const Var& w, const ConvolutionShape& offsets,
                       const ConvolutionRows& rows = {});

// spans.cpp
// x [B,H,N,D] -> [B,H,count,D]: the mean, or of each column the largest number, of the rows [c stride,
// c stride + size) of span c; all spans that end within x.
Var pool_spans(const Var& x, int64_t size, int64_t stride, bool largest = false);

// tokens.cpp
Var embedding(const Var& table, const Tensor& ids);
// Mean of -log softmax(logits)[target] over the targets >= 0.
Var cross_entropy(const Var& logits, const Tensor& targets);
// Mean of -log P(target) over the targets >= 0, of mixtures of logistics [..., 3 kLogistics] on
// `levels` levels.
Var logistics_loss(const Var& mixtures, const Tensor& targets, int64_t levels);

// codebook.cpp: hard vector quantization (nn/attention/vq.cpp), z = argmin_f |k - c_f|^2, codes c
// [H,F,D].
// y = c_z;  dk = dy: the gradient passes straight through. k [B,H,N,D]
Var quantize(const Var& k, const Tensor& codebook);

// L = beta mean |k - sg(c_z)|^2, and of a codebook that requires a gradient + mean |sg(k) - c_z|^2;
// with the number [H F,1] and the sum [H F,D] of the keys of each code; without padding.
struct Commitment {
  Var loss;
  Tensor counts, sums;
};
Commitment commitment_loss(const Var& k, const Var& codebook, double beta, const Tensor& valid);

}  // namespace linea
