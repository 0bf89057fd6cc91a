// The CUDA kernels' host functions: each is defined in the file named above it and compiled for
// float, double and BFloat16 there. What they do and take is told in tensor/kernels.h and
// kernel_shapes.h.
#pragma once

#include <type_traits>

#include "tensor/kernels.h"

// Kernels of double are for proofs on the emulated GPU. Builds whose every access is checked go
// without: what they look for stands in the code of float, and a third of their time would go into
// compiling the same again.
#ifdef LINEA_CUDA_WITHOUT_DOUBLE
#define LINEA_FOR_DOUBLE(instantiate)
#else
#define LINEA_FOR_DOUBLE(instantiate) instantiate(double)
#endif

namespace linea::cuda {

// elementwise.cu
template <typename T>
void fill(Context&, T* y, double value, int64_t n);
template <typename T>
void add(Context&, const T* a, const T* b, T* y, int64_t n);
template <typename T>
void multiply(Context&, const T* a, const T* b, T* y, int64_t n);
template <typename T>
void scale(Context&, const T* x, double factor, T* y, int64_t n);
template <typename T>
void accumulate(Context&, const T* x, T* y, int64_t n);
template <typename T>
void pointwise(Context&, Pointwise f, const T* x, T* y, int64_t n);
template <typename T>
void pointwise_backward(Context&, Pointwise f, const T* x, const T* dy, T* dx, int64_t n);
template <typename T>
void widen(Context&, const CastPiece<T, Accumulator<T>>*, size_t count);
template <typename T>
void narrow(Context&, const CastPiece<Accumulator<T>, T>*, size_t count);
template <typename T>
void gelu_recompute(Context&, const T* u, T* h, T* dh, int64_t n);
template <typename T>
void dropout(Context&, const T* x, T* y, int64_t n, float rate, uint32_t lane, int64_t first);
template <typename T>
void count_nonfinite(Context&, const T* x, int32_t* count, int64_t n);

// rows.cu
template <typename T>
void add_rows(Context&, const T* x, const T* row, T* y, int64_t R, int64_t C);
template <typename T>
void sum_rows(Context&, const T* x, T* y, int64_t R, int64_t C);
template <typename T>
void permute(Context&, const PermuteShape&, const T* x, T* y);
template <typename T>
void copy_rows(Context&, HeadRows<const T> x, HeadRows<T> y, int64_t P, int64_t S, int64_t width);
template <typename T>
void clear_padding(Context&, const ValidKeys&, T* x, int64_t P, int64_t S, int64_t C,
                   int64_t first);
template <typename T>
void reverse_cumsum(Context&, const T* x, T* y, int64_t R, int64_t n);
template <typename T>
void mask_causal(Context&, const T* x, T* y, int64_t R, int64_t N, double value);

// gemm.cpp
template <typename T>
void gemm(Context&, const GemmShape&, const T* a, const T* b, T* c);

// linear.cpp
template <typename T>
void linear(Context&, const LinearShape&, const T* x, const NormWeights<T>& norm, const T* w,
            const T* bias, const T* residual, T* y);

// fused_norm_linear.cu. False: not of these sizes, or not where they lie, and nothing was done.
bool fused_norm_linear(Context&, const LinearShape&, const BFloat16* x,
                       const NormWeights<BFloat16>& norm, const BFloat16* w, const BFloat16* bias,
                       BFloat16* y);

// panels.cu
template <typename T, typename W>
void pack_panels(Context&, const T* w, W* panels, int64_t out, int64_t in);
template <typename T, typename W>
void panel_gemm(Context&, const T* x, const W* panels, const T* bias, T* y, int64_t R, int64_t out,
                int64_t in);

// normalization.cu
template <typename T>
void layer_norm(Context&, const T* x, const T* weight, const T* bias, T* y, Accumulator<T>* mean,
                Accumulator<T>* scale, int64_t R, int64_t C);
template <typename T>
void layer_norm_backward(Context&, const T* x, const T* weight, const Accumulator<T>* mean,
                         const Accumulator<T>* scale, const T* dy, T* dx, T* dweight, T* dbias,
                         int64_t R, int64_t C);
template <typename T>
void softmax(Context&, const T* x, T* y, int64_t R, int64_t C);
template <typename T>
void softmax_backward(Context&, const T* y, const T* dy, T* dx, int64_t R, int64_t C);
template <typename T>
void normalize(Context&, const T* x, T* y, Accumulator<T>* sums, int64_t R, int64_t C);
template <typename T>
void normalize_backward(Context&, const T* y, const Accumulator<T>* sums, const T* dy, T* dx,
                        int64_t R, int64_t C);

// tokens.cu
template <typename T>
void embedding(Context&, const T* table, const int32_t* ids, T* y, int64_t R, int64_t C);
template <typename T>
void embed_position(Context&, const Accumulator<T>* table, const int32_t* ids,
                    const Accumulator<T>* positions, const int32_t* place, T* y, int64_t R,
                    int64_t C);
template <typename T>
void embedding_backward(Context&, const int32_t* ids, const T* dy, T* dtable, int64_t R,
                        int64_t tokens, int64_t C);
template <typename T>
void cross_entropy(Context&, const T* logits, const int32_t* targets, Accumulator<T>* losses,
                   Accumulator<T>* log_sums, int64_t R, int64_t V);
template <typename T>
void mean_scored(Context&, const Accumulator<T>* losses, const int32_t* targets,
                 Accumulator<T>* mean, Accumulator<T>* scored, int64_t R);
template <typename T>
void cross_entropy_backward(Context&, const T* logits, const int32_t* targets,
                            const Accumulator<T>* log_sums, const Accumulator<T>* scored,
                            const Accumulator<T>* dmean, T* dlogits, int64_t R, int64_t V);
template <typename T>
void argmax(Context&, const T* x, int32_t* index, int64_t R, int64_t C);
template <typename T>
void sample(Context&, OutputKind, const T* outputs, int64_t V, const SamplingParams&,
            RandomStream stream, const SampledTokens&);

// logistics.cu
template <typename T>
void logistics_loss(Context&, const T* mixtures, const int32_t* targets, Accumulator<T>* losses,
                    int64_t R, int64_t V);
template <typename T>
void logistics_loss_backward(Context&, const T* mixtures, const int32_t* targets,
                             const Accumulator<T>* losses, const Accumulator<T>* scored,
                             const Accumulator<T>* dmean, T* dmixtures, int64_t R, int64_t V);
template <typename T>
void logistics_scores(Context&, const T* mixtures, T* scores, int64_t R, int64_t V);

// features.cu
template <typename T>
void quadratic_features(Context&, const T* x, T* y, int64_t R, int64_t D);
template <typename T>
void quadratic_features_backward(Context&, const T* x, const T* dy, T* dx, int64_t R, int64_t D);
template <typename T>
void dpfp_features(Context&, const T* x, T* y, int64_t R, int64_t D, int64_t nu);
template <typename T>
void dpfp_features_backward(Context&, const T* x, const T* dy, T* dx, int64_t R, int64_t D,
                            int64_t nu);

// random_features.cu
template <typename T>
void random_logs(Context&, const HeadShape&, const T* x, const T* omega, double scale, T* u);
template <typename T>
void random_logs_backward(Context&, const HeadShape&, const T* x, const T* du, const T* omega,
                          double scale, T* dx);
template <typename T>
void square_norms(Context&, const T* x, T* w, double factor, int64_t R, int64_t D);
template <typename T>
void square_norms_backward(Context&, const T* x, const T* dw, T* dx, double factor, int64_t R,
                           int64_t D);
template <typename T>
void sine_cosine(Context&, const T* u, T* y, int64_t R, int64_t n);
template <typename T>
void sine_cosine_backward(Context&, const T* y, const T* dy, T* du, int64_t R, int64_t n);

// codebook.cu
template <typename T>
void mixture_logs(Context&, const HeadShape&, const T* codebook, const T* t, T* u);
template <typename T>
void mixture_logs_backward(Context&, const HeadShape&, const T* t, const T* logs, T* dlogs, T* dt);
template <typename T>
void add_to_heads(Context&, const HeadShape&, const T* part, const T* du, const T* codebook,
                  T* dcodebook);
template <typename T>
void nearest_code(Context&, const HeadShape&, const T* x, const T* codebook, int32_t* code);
template <typename T>
void gather_codes(Context&, const HeadShape&, const int32_t* code, const T* codebook, T* y);
template <typename T>
void sum_by_code(Context&, const HeadShape&, const T* x, const int32_t* code, T* counts, T* sums);
template <typename T>
void one_hot_logs(Context&, const int32_t* code, T* y, int64_t R, int64_t F);

// straight_through.cu
template <typename T>
void straight_through(Context&, const ChunkShape&, const ChunkInput<T>& in, const T* queries,
                      const int32_t* code, int64_t D, HeadRows<const T> dy,
                      const ChunkRows<Accumulator<T>>&, Strided<const Accumulator<T>> ddenominator,
                      const ChunkState<Accumulator<T>>& grads, T* dk);

// chunk_forward.cu
template <typename T>
void chunk_forward(Context&, const ChunkShape&, const ChunkInput<T>&,
                   const ChunkState<Accumulator<T>>&, HeadRows<T> y,
                   const ChunkRows<Accumulator<T>>&);

// chunk_backward_query.cu
template <typename T>
void chunk_backward_query(Context&, const ChunkShape&, const ChunkInput<T>&, HeadRows<const T> y,
                          HeadRows<const T> dy, const ChunkRows<Accumulator<T>>&,
                          const ChunkState<Accumulator<T>>&, HeadRows<T> dq,
                          Strided<Accumulator<T>> ddenominator);

// chunk_backward_key.cu
template <typename T>
void chunk_backward_key(Context&, const ChunkShape&, const ChunkInput<T>&, HeadRows<const T> dy,
                        const ChunkRows<Accumulator<T>>&,
                        Strided<const Accumulator<T>> ddenominator,
                        const ChunkState<Accumulator<T>>& grads, HeadRows<T> dk, Strided<T> dweight,
                        HeadRows<T> dv);

// recurrent.cu
template <typename T>
void recurrent_step(Context&, const ChunkShape&, const ChunkInput<T>&,
                    const ChunkState<Accumulator<T>>&, const PendingUpdates<T>&, T* y);

// fused_norm_step.cu
bool fused_norm_step(Context&, const LinearShape&, const BFloat16* x,
                     const NormWeights<BFloat16>& norm, const BFloat16* w, const BFloat16* bias,
                     const ChunkShape&, const ChunkState<float>&, const PendingUpdates<BFloat16>&,
                     BFloat16* y);
template <typename T>
constexpr decltype(Kernels<T>::fused_norm_step) fused_norm_step_of() {
  if constexpr (std::is_same_v<T, BFloat16>) return fused_norm_step;
  return nullptr;
}

// attention_matrix.cu
template <typename T>
void attention_matrix(Context&, const ChunkShape&, const ChunkInput<T>&, bool causal, T* matrix);
template <typename T>
void attention_matrix_backward(Context&, const ChunkShape&, const ChunkInput<T>&, bool causal,
                               const T* dmatrix, T* dq, T* dk, T* dweight, T* ddecay);

// delta.cu
template <typename T>
void delta_forward(Context&, const ChunkShape&, const T* q, const T* k, Strided<const T> v,
                   Strided<const T> beta, Accumulator<T>* state, Strided<T> y);
template <typename T>
void delta_backward(Context&, const ChunkShape&, const T* q, const T* k, Strided<const T> v,
                    Strided<const T> beta, Strided<const T> dy, const Accumulator<T>* state,
                    Accumulator<T>* dstate, T* dq, T* dk, Strided<T> dv, Strided<T> dbeta);

// delta_step.cu
template <typename T>
void delta_step(Context&, const T* q, const T* k, const T* v, const T* beta, Accumulator<T>* state,
                T* y, int64_t P, int64_t F, int64_t M);
template <typename T>
void solve_unit_lower(Context&, const T* l, const T* e, T* x, bool transpose, int64_t P, int64_t N,
                      int64_t M);

// softmax_attention.cu
template <typename T>
void softmax_attention(Context&, const SoftmaxShape&, const HeadRows<const T>& q,
                       const HeadRows<const T>& k, const HeadRows<const T>& v, const HeadRows<T>& y,
                       Accumulator<T>* log_sums);
template <typename T>
void softmax_attention_backward(Context&, const SoftmaxShape&, const HeadRows<const T>& q,
                                const HeadRows<const T>& k, const HeadRows<const T>& v,
                                const HeadRows<const T>& y, const Accumulator<T>* log_sums,
                                const HeadRows<const T>& dy, const HeadRows<T>& dq,
                                const HeadRows<T>& dk, const HeadRows<T>& dv);

// optimizer.cu
template <typename T>
void sum_squares(Context&, const TrainedParameter<T>*, size_t count, double* total);
template <typename T>
void clip_scale(Context&, const double* total, const Accumulator<T>* loss, double clip);
template <typename T>
void adam(Context&, const AdamConstants&, const TrainedParameter<T>*, size_t count);

}  // namespace linea::cuda
