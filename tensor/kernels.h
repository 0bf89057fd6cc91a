// The kernel table: everything the layers above ask a device to compute. Each topic is a struct of
// function pointers, which a backend fills with designated initializers at the end of the file that
// defines those kernels. Kernels<T> consists of all topics: a missing kernel does not compile.
// Kernels allocate no results, check no shapes and return no values to the host; ops.h and the
// layers above do. Arrays are contiguous and row-major; pointers are on the device.
//
//   T  storage type       A  Accumulator<T>, the type of sums, statistics and states
//   R  rows               C  columns
//   B  batch size         H  heads                    BH  B x H, with the index bh = b H + h
//   S  positions          F  features of a key        D   size of a key      M  size of a value
//   V  vocabulary size, or levels of a mixture of logistics
#pragma once

#include <cstdint>

#include "tensor/context.h"
#include "tensor/kernel_shapes.h"
#include "tensor/slot_kernels.h"

namespace linea {

template <typename T>
struct ElementwiseKernels {
  using A = Accumulator<T>;
  void (*fill)(Context&, T* y, double value, int64_t n);
  void (*add)(Context&, const T* a, const T* b, T* y, int64_t n);
  void (*multiply)(Context&, const T* a, const T* b, T* y, int64_t n);
  void (*scale)(Context&, const T* x, double factor, T* y, int64_t n);
  void (*pointwise)(Context&, Pointwise f, const T* x, T* y, int64_t n);
  void (*pointwise_backward)(Context&, Pointwise f, const T* x, const T* dy, T* dx, int64_t n);
  // Converts `count` arrays in one launch, from bf16 and to bf16; the list is in host memory.
  void (*widen)(Context&, const CastSpan<BFloat16, A>*, size_t count);
  void (*narrow)(Context&, const CastSpan<A, BFloat16>*, size_t count);
  // h = gelu(u), dh = gelu'(u) dh
  void (*gelu_recompute)(Context&, const T* u, T* h, T* dh, int64_t n);
  // y = x / (1 - rate) or 0, decided by random word first + i of (seed, step) in StepParams. Its
  // own backward.
  void (*dropout)(Context&, const T* x, T* y, int64_t n, float rate, uint32_t stream_id,
                  int64_t first);
};

template <typename T>
struct RowKernels {
  void (*add_rows)(Context&, const T* x, const T* row, T* y, int64_t R, int64_t C);
  void (*sum_rows)(Context&, const T* x, T* y, int64_t R, int64_t C);  // y[C]
  void (*permute)(Context&, const PermuteShape&, const T* x, T* y);
  // y = x, [BH,S,width] in two layouts
  void (*copy_rows)(Context&, HeadRows<const T> x, HeadRows<T> y, int64_t BH, int64_t S,
                    int64_t width);
  // Zeroes the rows of x [BH,S,C], positions first .. first + S - 1, that are padding.
  void (*clear_padding)(Context&, const ValidKeys&, T* x, int64_t BH, int64_t S, int64_t C,
                        int64_t first);
  // y[r,c] = x[r,c] where c <= r % N, else `value`; x [R,N]
  void (*mask_causal)(Context&, const T* x, T* y, int64_t R, int64_t N, double value);
  // y_t = x_t + y_{t+1} along rows of n, y_n being totals[r], which becomes y_0; null: 0
  void (*reverse_cumsum)(Context&, const T* x, T* y, int64_t R, int64_t n, double* totals);
};

template <typename T>
struct MatrixKernels {
  void (*gemm)(Context&, const GemmShape&, const T* a, const T* b, T* c);
};

template <typename T>
struct LinearKernels {
  // y = residual + f(norm(x) w^T + bias); bias and residual may be null, residual is not y. u: of
  // f = gelu without a residual
  void (*linear)(Context&, const LinearShape&, const T* x, const NormWeights<T>& norm, const T* w,
                 const T* bias, const T* residual, T* y, const GeluInput<T>& u);
};

// Weights packed for sampling: panels [ceil(out / kPanel), in, kPanel] of w [out,in].
template <typename T>
struct PanelKernels {
  void (*pack_panels)(Context&, const T* w, T* panels, int64_t out, int64_t in);
  void (*pack_bf16_panels)(Context&, const T* w, BFloat16* panels, int64_t out, int64_t in);
  // y [R,out] = x w^T + bias, x [R,in]; bias may be null
  void (*panel_gemm)(Context&, const T* x, const T* panels, const T* bias, T* y, int64_t R,
                     int64_t out, int64_t in);
  void (*bf16_panel_gemm)(Context&, const T* x, const BFloat16* panels, const T* bias, T* y,
                          int64_t R, int64_t out, int64_t in);
};

template <typename T>
struct NormalizationKernels {
  using A = Accumulator<T>;
  // scale = 1 / standard deviation; bias may be null
  void (*layer_norm)(Context&, const T* x, const T* weight, const T* bias, T* y, A* mean, A* scale,
                     int64_t R, int64_t C);
  void (*layer_norm_backward)(Context&, const T* x, const T* weight, const A* mean, const A* scale,
                              const T* dy, T* dx, T* dweight, T* dbias, int64_t R, int64_t C);
  void (*softmax)(Context&, const T* x, T* y, int64_t R, int64_t C);
  void (*softmax_backward)(Context&, const T* y, const T* dy, T* dx, int64_t R, int64_t C);
  // y = x / sum of its row
  void (*normalize)(Context&, const T* x, T* y, A* sums, int64_t R, int64_t C);
  void (*normalize_backward)(Context&, const T* y, const A* sums, const T* dy, T* dx, int64_t R,
                             int64_t C);
  // y = length x / |x|, 0 for a row of zeros; scales = length / |x|
  void (*unit_rows)(Context&, const T* x, T* y, A* scales, int64_t R, int64_t C, double length);
  void (*unit_rows_backward)(Context&, const T* y, const A* scales, const T* dy, T* dx, int64_t R,
                             int64_t C, double length);
};

// z = n(y) silu(g), with n the RMS norm of each of a row's H heads or, without a weight, the
// identity; y, g, z [R,C], weight [C].
template <typename T>
struct GatedNormKernels {
  void (*gated_norm)(Context&, const T* y, const T* weight, const T* g, T* z, int64_t R, int64_t H,
                     int64_t C);
  // dweight: null without a weight
  void (*gated_norm_backward)(Context&, const T* y, const T* weight, const T* g, const T* dz, T* dy,
                              T* dweight, T* dg, int64_t R, int64_t H, int64_t C);
};

template <typename T>
struct EmbeddingKernels {
  using A = Accumulator<T>;
  // y[r] = table[ids[r]], table [V,C]
  void (*embedding)(Context&, const T* table, const int32_t* ids, T* y, int64_t R, int64_t C);
  // dtable[v] = sum of dy[r] over ids[r] = v
  void (*embedding_backward)(Context&, const int32_t* ids, const T* dy, T* dtable, int64_t R,
                             int64_t V, int64_t C);
  // y[r] = table[ids[r]] + position_table[positions[r]]
  void (*embed_position)(Context&, const A* table, const int32_t* ids, const A* position_table,
                         const int32_t* positions, T* y, int64_t R, int64_t C);
  // index[b,n] = class_row(ids[b,0]) (formulas.h), ids [B,N]. While sampling N is 1, and index
  // changes at position 0 alone; else `positions` [B] is null.
  void (*class_index)(Context&, const int32_t* ids, const int32_t* positions, int32_t* index,
                      int64_t B, int64_t N, int64_t first, int64_t classes);
};

// A target below 0 is not scored. Mixtures of K logistics on V levels (formulas.h) have rows of
// [K logits, K means, K log scales].
template <typename T>
struct LossKernels {
  using A = Accumulator<T>;
  // losses[r] = log sum_v exp(x_rv) - x[r,target], 0 where not scored; log_sums for the backward
  void (*cross_entropy)(Context&, const T* logits, const int32_t* targets, A* losses, A* log_sums,
                        int64_t R, int64_t V);
  // the mean of the scored losses, and their number
  void (*mean_scored)(Context&, const A* losses, const int32_t* targets, A* mean, A* scored,
                      int64_t R);
  void (*cross_entropy_backward)(Context&, const T* logits, const int32_t* targets,
                                 const A* log_sums, const A* scored, const A* dmean, T* dlogits,
                                 int64_t R, int64_t V);
  // losses[r] = -log sum_k softmax(logits)_k P_k(target)
  void (*logistics_loss)(Context&, const T* mixtures, const int32_t* targets, A* losses, int64_t R,
                         int64_t V);
  void (*logistics_loss_backward)(Context&, const T* mixtures, const int32_t* targets,
                                  const A* losses, const A* scored, const A* dmean, T* dmixtures,
                                  int64_t R, int64_t V);
  // scores[r,v] = log P(v)
  void (*logistics_scores)(Context&, const T* mixtures, T* scores, int64_t R, int64_t V);
};

template <typename T>
struct SamplingKernels {
  void (*argmax)(Context&, const T* x, int32_t* index, int64_t R, int64_t C);
  // Samples a token for each row from softmax(scores / temperature), restricted by SamplingParams,
  // with the random number of step stream.step + count[r]; then writes it and advances the row.
  void (*sample)(Context&, OutputKind, const T* outputs, int64_t V, const SamplingParams&,
                 RandomStream stream, const SampledTokens&);
};

// Feature maps that are not pointwise: rows of D to rows of F.
template <typename T>
struct FeatureKernels {
  void (*quadratic_features)(Context&, const T* x, T* y, int64_t R, int64_t D);
  void (*quadratic_features_backward)(Context&, const T* x, const T* dy, T* dx, int64_t R,
                                      int64_t D);
  void (*dpfp_features)(Context&, const T* x, T* y, int64_t R, int64_t D, int64_t nu);
  void (*dpfp_features_backward)(Context&, const T* x, const T* dy, T* dx, int64_t R, int64_t D,
                                 int64_t nu);
};

// Random features (nn/attention/performer.cpp) of rows x [BH,S,D] by omega [H,F,D].
template <typename T>
struct RandomFeatureKernels {
  // x^ = scale x: u [BH,S,F] = omega_f.x^ - |x^|^2 / 2
  void (*random_logs)(Context&, const HeadShape&, const T* x, const T* omega, double scale, T* u);
  // dx = scale sum_f du_f (omega_f - x^)
  void (*random_logs_backward)(Context&, const HeadShape&, const T* x, const T* du, const T* omega,
                               double scale, T* dx);
  // y [R,2n] = [sin u, cos u], u [R,n]
  void (*sine_cosine)(Context&, const T* u, T* y, int64_t R, int64_t n);
  void (*sine_cosine_backward)(Context&, const T* y, const T* dy, T* du, int64_t R, int64_t n);
};

// Features from a codebook c [H,F,D] with temperatures t [BH]; formulas in nn/attention/soft_vq.cpp
// and vq.cpp.
template <typename T>
struct CodebookKernels {
  // u [BH,S,F] = k.c becomes log softmax_f((u - |c_f|^2 / 2) / t)
  void (*mixture_logs)(Context&, const HeadShape&, const T* codebook, const T* t, T* u);
  // dlogs becomes du; dt[bh] += its gradient
  void (*mixture_logs_backward)(Context&, const HeadShape&, const T* t, const T* logs, T* dlogs,
                                T* dt);
  // dcodebook[h] += sum over b of x [BH,F,D] - (sum over rows of du) c; du may be null
  void (*add_to_heads)(Context&, const HeadShape&, const T* x, const T* du, const T* codebook,
                       T* dcodebook);
  // The nearest code of each row x, the first of equals, as a row of the codebook as [H F, D]. Sums
  // in plain order, so that every form of the attention chooses the same code.
  void (*nearest_code)(Context&, const HeadShape&, const T* x, const T* codebook, int32_t* code);
  // y [R,F] = 0 at the code of its head, -infinity elsewhere
  void (*one_hot_logs)(Context&, const int32_t* code, T* y, int64_t R, int64_t F);
};

// Linear attention with the sum rule on one segment; formulas in tensor/cpu/chunk.h. The state is
// read and updated.
template <typename T>
struct ChunkForwardKernels {
  using A = Accumulator<T>;
  void (*chunk_forward)(Context&, const ChunkShape&, const ChunkInput<T>&, const ChunkState<A>&,
                        HeadRows<T> y, const ChunkRows<A>&);
};

template <typename T>
struct ChunkBackwardQueryKernels {
  using A = Accumulator<T>;
  void (*chunk_backward_query)(Context&, const ChunkShape&, const ChunkInput<T>&,
                               HeadRows<const T> y, HeadRows<const T> dy, const ChunkRows<A>&,
                               const ChunkState<A>&, HeadRows<T> dq, Strided<A> ddenominator);
};

template <typename T>
struct ChunkBackwardKeyKernels {
  using A = Accumulator<T>;
  // dweight: the gradient of the log weight of a key, may be null
  void (*chunk_backward_key)(Context&, const ChunkShape&, const ChunkInput<T>&,
                             HeadRows<const T> dy, const ChunkRows<A>&,
                             Strided<const A> ddenominator, const ChunkState<A>& grads,
                             HeadRows<T> dk, Strided<T> dweight, HeadRows<T> dv);
};

template <typename T>
struct StraightThroughKernels {
  using A = Accumulator<T>;
  // dk [BH,S,D] of hard codes: the gradient of the key's code, passed straight through; the state's
  // gradients are [F, D (M+1)]. in.q are log features of `queries` [BH,S,D].
  void (*straight_through)(Context&, const ChunkShape&, const ChunkInput<T>& in, const T* queries,
                           const int32_t* code, int64_t D, HeadRows<const T> dy,
                           const ChunkRows<A>&, Strided<const A> ddenominator,
                           const ChunkState<A>& grads, T* dk);
};

template <typename T>
struct RecurrentKernels {
  // One position (S = 1): updates the state with its key and value, then reads it.
  void (*recurrent_step)(Context&, const ChunkShape&, const ChunkInput<T>&, const RecurrentView<T>&,
                         T* y);
};

// Rules without a denominator (autograd/delta_attention.h); the state S [BH,F,M] is read and
// updated, y [BH,S,M].
template <typename T>
struct DeltaKernels {
  using A = Accumulator<T>;
  void (*delta_forward)(Context&, const ChunkShape&, const DeltaInput<T>&, A* state, Strided<T> y);
  // `state`: before the segment; dstate is read and updated. The gradient that is written as that
  // of a log decay is that of L_i, the sum of the log decays up to position i.
  void (*delta_backward)(Context&, const ChunkShape&, const DeltaInput<T>&, Strided<const T> dy,
                         const A* state, A* dstate, const DeltaGradients<T>&);
};

// Log decays and their gradients.
template <typename T>
struct DecayKernels {
  using A = Accumulator<T>;
  // u, y [BH,n], log_rate [H], null: 0
  void (*log_decays)(Context&, const DecayShape&, const T* u, const T* log_rate, T* y);
  // dlog_rate [H], null without log_rate
  void (*log_decays_backward)(Context&, const DecayShape&, const T* u, const T* log_rate,
                              const T* dy, T* du, T* dlog_rate);
  // x_t += x_{t+1} of the rows [W] of a segment, the last one from `end` [BH,W], which becomes the
  // sums of the products of the state before it and its gradient [BH,F,M]: of each row, W = F, where
  // each feature decays, or of all, W = 1.
  void (*sum_back)(Context&, const ChunkShape&, const A* state, const A* dstate, A* end,
                   Strided<T> x);
};

template <typename T>
struct DeltaStepKernels {
  using A = Accumulator<T>;
  // One position of each sequence, S = 1: the state is updated, then read.
  void (*delta_step)(Context&, const ChunkShape&, const DeltaInput<T>&, A* state, T* y);
  // x[bh] = l[bh]^-1 e[bh], or l^-T e, with l [BH,N,N] unit lower triangular, of which only the
  // entries below the diagonal are read; e, x [BH,N,M]
  void (*solve_unit_lower)(Context&, const T* l, const T* e, T* x, bool transpose, int64_t BH,
                           int64_t N, int64_t M);
};

// Rows x [BH,S,width] turned by their positions: the pair (x_d, x_{d + width / 2}) of row i by the angle
// whose cosine and sine are table[i,d] and table[i,d + width / 2]; `back`: the other way. y may be x.
template <typename T>
struct RotaryKernels {
  void (*rotate)(Context&, const T* table, HeadRows<const T> x, HeadRows<T> y, int64_t BH,
                 int64_t S, int64_t width, bool back);
};

// Softmax attention in blocks: no array of queries x keys is stored.
template <typename T>
struct SoftmaxAttentionKernels {
  using A = Accumulator<T>;
  void (*softmax_attention)(Context&, const SoftmaxShape&, const AttentionRows<const T>&,
                            const HeadRows<T>& y, A* log_sums);
  void (*softmax_attention_backward)(Context&, const SoftmaxShape&, const AttentionRows<const T>&,
                                     const HeadRows<const T>& y, const A* log_sums,
                                     const HeadRows<const T>& dy, const AttentionRows<T>& grads);
};

// Softmax attention over sets of keys, in tiles.
template <typename T>
struct SparseAttentionKernels {
  using A = Accumulator<T>;
  void (*sparse_attention)(Context&, const SparseShape&, const AttentionRows<const T>&,
                           const T* bias, const HeadRows<T>& y, A* log_sums);
  // dbias [BH,bias_length], null where there is no bias
  void (*sparse_attention_backward)(Context&, const SparseShape&, const AttentionRows<const T>&,
                                    const T* bias, const HeadRows<const T>& y, const A* log_sums,
                                    const HeadRows<const T>& dy, const AttentionRows<T>& grads,
                                    T* dbias);
};

// y [BH,count,width] of the spans of x; `rows` [BH,count,width]: those of the largest numbers, else null.
template <typename T>
struct SpanKernels {
  void (*pool_spans)(Context&, const SpanShape&, const T* x, T* y, int32_t* rows);
  void (*pool_spans_backward)(Context&, const SpanShape&, const T* dy, const int32_t* rows, T* dx);
};

// Decisions (autograd/decisions.h), and softmax attention over the `chosen` keys of largest q.k
// [BH,queries,count+1].
template <typename T>
struct TopKeysKernels {
  using A = Accumulator<T>;
  void (*top_keys)(Context&, const TopKeysShape&, const HeadRows<const T>& q,
                   const HeadRows<const T>& k, int32_t* chosen);
  void (*largest_product)(Context&, const LargestProductShape&, const HeadRows<const T>& x,
                          const T* w, int32_t* chosen);  // [BH,rounds,rows]
  void (*listed_attention)(Context&, const TopKeysShape&, const AttentionRows<const T>&,
                           const int32_t* chosen, const HeadRows<T>& y, A* log_sums);
  void (*listed_attention_backward)(Context&, const TopKeysShape&, const AttentionRows<const T>&,
                                    const int32_t* chosen, const HeadRows<const T>& y,
                                    const A* log_sums, const HeadRows<const T>& dy,
                                    const AttentionRows<T>& grads);
};

// y[b,n] = sum_t w[t] x[b, n - offset[t]] where ConvolutionShape::reads; x, y [B,N,C], w [count,C].
template <typename T>
struct ConvolutionKernels {
  void (*convolution)(Context&, const ConvolutionShape&, const T* x, const T* w, T* y);
  void (*convolution_backward)(Context&, const ConvolutionShape&, const T* x, const T* w,
                               const T* dy, T* dx, T* dw);
  // One position of each sequence, x and y [B,C], which enters ring [B,ring(),C].
  void (*convolution_step)(Context&, const ConvolutionShape&, const T* x, const T* w,
                           const int32_t* positions, T* ring, T* y);
};

// All parameters in one launch; the list of `count` parameters is in host memory.
template <typename T>
struct OptimizerKernels {
  // total += the sum of the squares of all gradients
  void (*sum_squares)(Context&, const TrainedParameter<T>*, size_t count, double* total);
  // Writes StepParams; `loss`, that of the step, may be null.
  void (*clip_scale)(Context&, const double* total, const Accumulator<T>* loss, double clip);
  void (*adam)(Context&, const AdamConstants&, const TrainedParameter<T>*, size_t count);
};

template <typename T>
struct MuonKernels {
  // The list of `count` matrices is in host memory.
  void (*muon)(Context&, const MuonConstants&, const MuonMatrix<T>*, size_t count);
};

// The tables of all topics.
template <typename T, template <typename> typename... Topics>
struct KernelTable : Topics<T>... {};

template <typename T>
using Kernels =
    KernelTable<T, ElementwiseKernels, RowKernels, MatrixKernels, LinearKernels, PanelKernels,
                NormalizationKernels, GatedNormKernels, EmbeddingKernels, LossKernels,
                SamplingKernels, FeatureKernels, RandomFeatureKernels, CodebookKernels,
                ChunkForwardKernels, ChunkBackwardQueryKernels, ChunkBackwardKeyKernels,
                StraightThroughKernels, RecurrentKernels, DeltaKernels, DecayKernels,
                DeltaStepKernels, RotaryKernels, SoftmaxAttentionKernels, SparseAttentionKernels,
                SpanKernels, TopKeysKernels, ConvolutionKernels, OptimizerKernels, MuonKernels,
                SlotKernels>;

// The kernels of a device for storage type T. Error: ErrorKind::usage where this build has no such
// backend, or the device does not store T.
template <typename T>
const Kernels<T>& kernels(Device device);

}  // namespace linea
