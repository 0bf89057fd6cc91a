// Ops on tensors without gradients: each checks shapes, dtypes and devices, allocates its result
// and calls a kernel. Errors: ErrorKind::usage, naming the op and the shapes; ErrorKind::memory.
// Letters as in tensor/kernels.h; `...`: any outer axes.
#pragma once

#include <utility>
#include <vector>

#include "tensor/kernels.h"
#include "tensor/tensor.h"

namespace linea::ops {

// The floating-point dtype that all share. Error: another dtype, or two that differ.
DType common_dtype(const char* op, std::initializer_list<const Tensor*> tensors);
void require_shape(const char* op, const char* name, const Tensor& x, const Shape& shape);

Tensor add(const Tensor& a, const Tensor& b);
Tensor multiply(const Tensor& a, const Tensor& b);
Tensor scale(const Tensor& x, double factor);
// f32 to bf16 or back; x itself where it has the dtype. Error: the device does not store bf16.
Tensor cast(const Tensor& x, DType dtype);
std::vector<Tensor> cast_all(const std::vector<Tensor>& xs, DType dtype);  // in one launch
void cast_into(const std::vector<Tensor>& xs, const std::vector<Tensor>& ys);
Tensor pointwise(Pointwise f, const Tensor& x);
Tensor pointwise_backward(Pointwise f, const Tensor& x, const Tensor& dy);
// y = x / (1 - rate) or 0, by the random numbers of (seed, step, stream_id). rate in [0, 1).
Tensor dropout(const Tensor& x, float rate, uint32_t stream_id);

// x [..., C...] + row [C...], broadcast over the outer axes.
Tensor add_rows(const Tensor& x, const Tensor& row);
// The sum of x over its outer axes; `row`: shape of the remaining ones.
Tensor sum_rows(const Tensor& x, const Shape& row);
// The axes of x [s0,s1,s2,s3,inner...] reordered by PermuteShape; shares x's memory where the order
// of elements stays the same.
Tensor permute(const Tensor& x, const PermuteShape& shape, const Shape& result);

// alpha op(A) op(B): a [..., R, K] (transposed: [..., K, R]); b [K, C] (transposed: [C, K]) for all
// of a's matrices, or with a's outer axes.
Tensor matmul(const Tensor& a, const Tensor& b, bool transpose_a = false, bool transpose_b = false,
              double alpha = 1);

// Results into existing memory; elementwise ops may write to an operand.
void add_into(const Tensor& a, const Tensor& b, const Tensor& y);
inline void accumulate(const Tensor& x, const Tensor& into) { add_into(into, x, into); }
void copy_into(const Tensor& x, const Tensor& y);
void pointwise_into(Pointwise f, const Tensor& x, const Tensor& y);
// The dropout of a larger tensor, from its element `first` on.
void dropout_into(const Tensor& x, float rate, uint32_t stream_id, int64_t first, const Tensor& y);
// y = op(A) op(B) + beta y for matrices; packed: where a CPU saves B as it packs it, may be null.
void matmul_into(const Tensor& a, const Tensor& b, bool transpose_a, bool transpose_b,
                 const Tensor& y, double beta, PackedWeight* packed = nullptr);
struct Norm {
  Tensor weight{}, bias{};  // undefined: none
};
struct Linear {
  Tensor weight, bias{};           // bias may be undefined
  PackedWeight* packed = nullptr;  // as in matmul_into
};
// y = residual + f(norm(x) W^T + bias), f = gelu or the identity; x [R,in], W [out,in]; residual
// may be undefined. gelu_input: norm(x) W^T + bias for a backward pass, in the dtype of y or,
// on a CPU, in bf16; not with a residual.
void linear_into(const Tensor& x, const Norm& norm, const Linear& linear, bool gelu,
                 const Tensor& residual, const Tensor& y, const Tensor& gelu_input = {});
// Weights [out,in] packed for sampling, [panels,in,kPanel], and y = x W^T + bias by them; x [R,in],
// bias may be undefined. Panels may be bf16 where x and W are not.
Shape panels_shape(const Tensor& weight);
void pack_panels_into(const Tensor& weight, const Tensor& panels);
void panel_matmul_into(const Tensor& x, const Tensor& panels, const Tensor& bias, const Tensor& y);
// h = gelu(u) and dh = gelu'(u) dh: for a backward that saved only u.
void gelu_recompute(const Tensor& u, const Tensor& h, const Tensor& dh);

// x [BH,S,K] times its head's w [H,K,C] (transposed: [H,C,K]) -> [BH,S,C]; bh belongs to head
// (first_bh + bh) % H. `rounds`: FloatProducts::rounded rounds the factors on a CPU, too.
Tensor head_matmul(const Tensor& x, const Tensor& w, int64_t first_bh, bool transpose_w,
                   double alpha = 1, bool rounds = false);

struct LayerNorm {
  Tensor y, mean, scale;
};
// bias may be undefined
LayerNorm layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias);
struct LayerNormGradient {
  Tensor dx, dweight, dbias;
};
// dx: where that gradient is written; undefined: to a new tensor.
LayerNormGradient layer_norm_backward(const Tensor& x, const Tensor& weight, bool with_bias,
                                      const LayerNorm& saved, const Tensor& dy,
                                      const Tensor& dx = {});

// Along the last axis.
Tensor softmax(const Tensor& x);
Tensor softmax_backward(const Tensor& y, const Tensor& dy);
std::pair<Tensor, Tensor> normalize(const Tensor& x);  // y = x / sum, and the sums
Tensor normalize_backward(const Tensor& y, const Tensor& sums, const Tensor& dy);
// y = length x / |x|, 0 for a row of zeros, and length / |x|
std::pair<Tensor, Tensor> unit_rows(const Tensor& x, double length);
Tensor unit_rows_backward(const Tensor& y, const Tensor& scales, const Tensor& dy, double length);
// z = n(y) silu(g), y and g [..., C]; n: the RMS norm of each of `heads` heads with weight [C], or
// the identity where that is undefined.
Tensor gated_norm(const Tensor& y, const Tensor& weight, const Tensor& g, int64_t heads);
struct GatedNormGradient {
  Tensor dy, dweight, dg;
};
GatedNormGradient gated_norm_backward(const Tensor& y, const Tensor& weight, const Tensor& g,
                                      int64_t heads, const Tensor& dz);
// x [B,H,N,...] with zeros in the padding, which may hold anything, in place; valid i32 [B], how many
// positions of each sequence exist; undefined: all.
void clear_padding(const Tensor& x, const Tensor& valid);
// y_t = x_t + y_{t+1} along the last axis. totals: f64, a number a row, what is added to the last element;
// it becomes the first one's sum; undefined: 0.
Tensor reverse_cumsum(const Tensor& x, const Tensor& totals = {});
// x [..., N, N] with `value` above the diagonal.
Tensor mask_causal(const Tensor& x, double value);

// table [V,C], ids i32 of any shape -> [ids..., C]. Error: an id outside [0, V).
Tensor embedding(const Tensor& table, const Tensor& ids);
Tensor embedding_backward(const Tensor& ids, const Tensor& dy, int64_t vocab_size);
// table [V,C], ids i32 [R], position_table [N,C], positions i32 [R] -> table[ids] +
// position_table[positions], [R,C] of `dtype`. Error: an id or a position out of range.
Tensor embed_position(const Tensor& table, const Tensor& ids, const Tensor& position_table,
                      const Tensor& positions, DType dtype);

// The rows of a table of classes (class_row, formulas.h) for each position of ids i32 [B,N].
// update_class_index is for sampling, ids [B]: index [B] changes where a position is 0.
Tensor class_index(const Tensor& ids, int64_t first, int64_t classes);
void update_class_index(const Tensor& ids, const Tensor& positions, int64_t first, int64_t classes,
                        const Tensor& index);

// Causal depthwise convolutions of x [B,N,C] by w [count,C]: ConvolutionShape, whose sizes are those
// of x. A step: x [B,1,C], positions i32 [B], ring [B,ring(),C], zeros before the first position.
Tensor convolution(const Tensor& x, const Tensor& w, const ConvolutionShape& offsets);
std::pair<Tensor, Tensor> convolution_backward(const Tensor& x, const Tensor& w,  // dx, dw
                                               const ConvolutionShape& offsets, const Tensor& dy);
Tensor convolution_step(const Tensor& x, const Tensor& w, const ConvolutionShape& offsets,
                        const Tensor& positions, const Tensor& ring);

// logits [..., V], targets i32 [...], below 0 where not scored. Error: a target above V - 1.
struct ScoredLoss {
  Tensor mean, losses, scored, log_sums{};  // log_sums: of cross_entropy
};
ScoredLoss cross_entropy(const Tensor& logits, const Tensor& targets);
Tensor cross_entropy_backward(const Tensor& logits, const Tensor& targets, const ScoredLoss& saved,
                              const Tensor& dmean);
Tensor argmax(const Tensor& x);  // over the last axis, i32
// SampledTokens as tensors of i32: tokens, positions and count [R], token_buffer [capacity,R]; all
// but `tokens` may be undefined.
struct Sampled {
  Tensor tokens, positions{}, count{}, token_buffer{};
};
// Samples a token for each row of outputs [R,V] (mixtures: [R, 3 kLogistics] on V levels) with the
// random numbers of the step stream.step + count. Errors: check_sampling_params.
void sample(OutputKind kind, const Tensor& outputs, int64_t V, const SamplingParams& params,
            const RandomStream& stream, const Sampled& to);
// Errors: temperature not above 0, top_k below 0, top_p outside (0, 1].
void check_sampling_params(const SamplingParams& params);

// Mixtures of kLogistics distributions [..., 3 kLogistics] on `levels` levels; targets as above.
ScoredLoss logistics_loss(const Tensor& mixtures, const Tensor& targets, int64_t levels);
Tensor logistics_loss_backward(const Tensor& mixtures, const Tensor& targets, int64_t levels,
                               const ScoredLoss& saved, const Tensor& dmean);
// The log probability of each level, [..., levels].
Tensor logistics_scores(const Tensor& mixtures, int64_t levels);

Tensor quadratic_features(const Tensor& x);  // [..., D] -> [..., D^2]
Tensor quadratic_features_backward(const Tensor& x, const Tensor& dy);
int64_t dpfp_size(int64_t key_size, int64_t nu);    // 2 D nu. Error: nu outside 1 .. 2 D - 1.
Tensor dpfp_features(const Tensor& x, int64_t nu);  // [..., D] -> [..., 2 D nu]
Tensor dpfp_features_backward(const Tensor& x, const Tensor& dy, int64_t nu);

// Log random features of x [BH,S,D] by omega [H,F,D]: omega_f.x^ - |x^|^2 / 2 with x^ = scale x,
// [BH,S,F]; and dx. FloatProducts::rounded rounds the factors of their products on a CPU.
Tensor random_logs(const Tensor& x, const Tensor& omega, int64_t first_bh, double scale);
Tensor random_logs_backward(const Tensor& x, const Tensor& du, const Tensor& omega,
                            int64_t first_bh, double scale);
Tensor sine_cosine(const Tensor& u);  // [sin u, cos u], [..., n] -> [..., 2n]
Tensor sine_cosine_backward(const Tensor& y, const Tensor& dy);
// The nearest code of each row x [BH,S,D] in its head's codebook, as a row of all codes [H F, D], i32
// [BH,S].
Tensor nearest_code(const Tensor& x, const Tensor& codebook, int64_t first_bh);
// codes [...] -> [..., F]: 0 at the code of its head, -infinity elsewhere.
Tensor one_hot_logs(const Tensor& codes, int64_t F, DType dtype);

// The number of elements that are not finite, counted on the host.
int64_t count_nonfinite(const Tensor& x);

}  // namespace linea::ops
