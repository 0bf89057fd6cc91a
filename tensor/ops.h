// Ops on tensors without gradients: each checks shapes, dtypes and devices, allocates its result
// and calls one kernel. Errors: ErrorKind::usage naming the op and both shapes; ErrorKind::memory.
#pragma once

#include <utility>
#include <vector>

#include "tensor/kernels.h"
#include "tensor/tensor.h"

namespace linea::ops {

// f32 or f64, the dtype that all of them share. Error: another dtype, or two that differ.
DType common_dtype(const char* op, std::initializer_list<const Tensor*> tensors);
void require_shape(const char* op, const char* name, const Tensor& x, const Shape& shape);

Tensor add(const Tensor& a, const Tensor& b);
Tensor multiply(const Tensor& a, const Tensor& b);
Tensor scale(const Tensor& x, double factor);
void accumulate(const Tensor& x, const Tensor& into);  // into += x, in place
// f32 as bf16 or bf16 as f32; x itself where it is `dtype` already. Needs a device that stores
// bf16.
Tensor cast(const Tensor& x, DType dtype);
std::vector<Tensor> cast_all(const std::vector<Tensor>& xs,
                             DType dtype);  // f32 as bf16, or back, at once
Tensor pointwise(Pointwise f, const Tensor& x);
Tensor pointwise_backward(Pointwise f, const Tensor& x, const Tensor& dy);
// y = x / (1 - rate) where a number of (seed, step, lane) keeps it, else 0. rate in [0, 1).
Tensor dropout(const Tensor& x, float rate, uint32_t stream_id);

// x [..., C...] + row [C...], repeated over the outer axes.
Tensor add_rows(const Tensor& x, const Tensor& row);
// The sum of x over all but its last axes, which have the shape `row`.
Tensor sum_rows(const Tensor& x, const Shape& row);
// Axes of x [s0,s1,s2,s3,inner...] in a new order, as PermuteShape says; x's own memory where
// nothing moves.
Tensor permute(const Tensor& x, const PermuteShape& shape, const Shape& result);

// C = alpha op(A) op(B). a is [..., R, K] (or [..., K, R] when transposed); b is [K, C] (or [C,
// K]), shared by all of a's matrices, or has a's outer axes.
Tensor matmul(const Tensor& a, const Tensor& b, bool transpose_a = false, bool transpose_b = false,
              double alpha = 1);

// Into memory that is there, which may be that of an operand where one element makes one element.
void add_into(const Tensor& a, const Tensor& b, const Tensor& y);
void copy_into(const Tensor& x, const Tensor& y);
void pointwise_into(Pointwise f, const Tensor& x, const Tensor& y);
// Elements `first` and on of a larger tensor's dropout.
void dropout_into(const Tensor& x, float rate, uint32_t stream_id, int64_t first, const Tensor& y);
// y = op(A) op(B) + beta y, matrices.
void matmul_into(const Tensor& a, const Tensor& b, bool transpose_a, bool transpose_b,
                 const Tensor& y, double beta);
struct Norm {
  Tensor weight{}, bias{};  // undefined: none
};
// y = residual + f(norm(x) W^T + bias), f gelu or nothing; x [R,in], W [out,in]; bias and residual
// may be undefined.
void linear_into(const Tensor& x, const Norm& norm, const Tensor& weight, const Tensor& bias,
                 bool gelu, const Tensor& residual, const Tensor& y);
// Weights [out,in] as sampling reads them, [panels,in,kPanel], and y = x W^T + bias by them; x
// [R,in], bias may be undefined. Panels may be bf16 beside x and W of another type.
Shape panels_shape(const Tensor& weight);
void pack_panels_into(const Tensor& weight, const Tensor& panels);
void panel_matmul_into(const Tensor& x, const Tensor& panels, const Tensor& bias, const Tensor& y);
// h = gelu(u), and dh becomes du = gelu'(u) dh: what a backward needs where only u was kept.
void gelu_recompute(const Tensor& u, const Tensor& h, const Tensor& dh);

// x [P,S,K] of pairs in the order of their heads, pair p of the head (first_bh + p) % H, times
// its head's w [H,K,C] (or [H,C,K]) -> [P,S,C].
Tensor head_matmul(const Tensor& x, const Tensor& w, int64_t first_bh, bool transpose_w,
                   double alpha = 1);

struct LayerNorm {
  Tensor y, mean, scale;
};
LayerNorm layer_norm(const Tensor& x, const Tensor& weight,
                     const Tensor& bias);  // bias may be undefined
struct LayerNormGradient {
  Tensor dx, dweight, dbias;
};
LayerNormGradient layer_norm_backward(const Tensor& x, const Tensor& weight, bool with_bias,
                                      const LayerNorm& kept, const Tensor& dy);

// Along the last axis.
Tensor softmax(const Tensor& x);
Tensor softmax_backward(const Tensor& y, const Tensor& dy);
std::pair<Tensor, Tensor> normalize(const Tensor& x);  // y = x / sum, and the sums
Tensor normalize_backward(const Tensor& y, const Tensor& sums, const Tensor& dy);
// x [..., N, N]: entries above the diagonal become `value`.
Tensor mask_causal(const Tensor& x, double value);

// table [V,C], ids i32 of any shape -> [ids..., C]. Error: an id outside [0, V).
Tensor embedding(const Tensor& table, const Tensor& ids);
Tensor embedding_backward(const Tensor& ids, const Tensor& dy, int64_t tokens);
// table [V,C], ids i32 [R], positions [N,C], place i32 [R], below N -> their sum [R,C], stored as
// `stored`.
Tensor embed_position(const Tensor& table, const Tensor& ids, const Tensor& positions,
                      const Tensor& place, DType stored);

// logits [..., V], targets i32 [...], -1 where not scored. Error: a target above V - 1.
struct CrossEntropy {
  Tensor mean, losses, log_sums, scored;
};
CrossEntropy cross_entropy(const Tensor& logits, const Tensor& targets);
Tensor cross_entropy_backward(const Tensor& logits, const Tensor& targets, const CrossEntropy& kept,
                              const Tensor& dmean);
Tensor argmax(const Tensor& x);  // over the last axis, i32
// The sampled tokens, i32: tokens, place and count [R] and token_buffer [capacity,R], as
// SampledTokens says; all but the tokens may be undefined.
struct Sampled {
  Tensor tokens, place{}, count{}, token_buffer{};
};
// A token of each row of outputs [R,V] (mixtures: [R, 3 kLogistics], on V levels), by the numbers
// of the stream's step
// + count. Errors: a temperature not above 0, top_k below 0, top_p outside (0, 1].
void sample(OutputKind kind, const Tensor& outputs, int64_t V, const SamplingParams& params,
            const RandomStream& stream, const Sampled& to);
Tensor sample(const Tensor& logits, const SamplingParams& params,
              const RandomStream& stream);  // i32 [R]
void check_sampling_params(const SamplingParams& params);

// Mixtures of kLogistics distributions [..., 3 kLogistics] on `levels` levels; targets i32 [...],
// -1: not scored. Error: a target above levels - 1.
struct LogisticsLoss {
  Tensor mean, losses, scored;
};
LogisticsLoss logistics_loss(const Tensor& mixtures, const Tensor& targets, int64_t levels);
Tensor logistics_loss_backward(const Tensor& mixtures, const Tensor& targets, int64_t levels,
                               const LogisticsLoss& kept, const Tensor& dmean);
Tensor logistics_scores(const Tensor& mixtures,
                        int64_t levels);  // log P of each level, [..., levels]

Tensor quadratic_features(const Tensor& x);  // [..., D] -> [..., D^2]
Tensor quadratic_features_backward(const Tensor& x, const Tensor& dy);
Tensor dpfp_features(const Tensor& x, int64_t nu);  // [..., D] -> [..., 2 D nu]
Tensor dpfp_features_backward(const Tensor& x, const Tensor& dy, int64_t nu);

// Logs of random features of rows x [P,S,D] by their heads' omega [H,F,D]: x^ = scale x, omega_f.x^
// - |x^|^2 / 2, [P,S,F]; and dx.
Tensor random_logs(const Tensor& x, const Tensor& omega, int64_t first_bh, double scale);
Tensor random_logs_backward(const Tensor& x, const Tensor& du, const Tensor& omega,
                            int64_t first_bh, double scale);
Tensor square_norms(const Tensor& x, double factor);  // [P,S,D] -> [P,S]
void square_norms_backward(const Tensor& x, const Tensor& dw, const Tensor& dx, double factor);
Tensor sine_cosine(const Tensor& u);  // [..., n] -> [..., 2n]
Tensor sine_cosine_backward(const Tensor& y, const Tensor& dy);
// The code of each row x [P,S,D] in its head's codebook [H,F,D], i32 [P,S]; and rows of 0 and
// -infinity.
Tensor nearest_code(const Tensor& x, const Tensor& codebook, int64_t first_bh);
Tensor gather_codes(const Tensor& codes, const Tensor& codebook,
                    int64_t first_bh);  // [P,S] -> [P,S,D]
// How many rows x [P,S,D] each code has, [H,F], and their sums [H,F,D].
std::pair<Tensor, Tensor> sum_by_code(const Tensor& x, const Tensor& codes, const Shape& codebook);
Tensor one_hot_logs(const Tensor& codes, int64_t F, DType dtype);

// Elements that are not finite. Waits for the device.
int64_t count_nonfinite(const Tensor& x);

}  // namespace linea::ops
