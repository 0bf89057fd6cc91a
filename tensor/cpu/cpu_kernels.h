// The CPU kernels, in the order of kernels.h; each is defined in the file named above it and
// compiled for float and double there.
#pragma once

#include "tensor/kernels.h"

namespace linea::cpu {

// elementwise.cpp
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
void widen(Context&, const CastPiece<T, T>*, size_t count);
template <typename T>
void narrow(Context&, const CastPiece<T, T>*, size_t count);
template <typename T>
void gelu_recompute(Context&, const T* u, T* h, T* dh, int64_t n);
template <typename T>
void dropout(Context&, const T* x, T* y, int64_t n, float rate, uint32_t stream_id, int64_t first);
template <typename T>
void count_nonfinite(Context&, const T* x, int32_t* count, int64_t n);

// rows.cpp
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
template <typename T>
void linear(Context&, const LinearShape&, const T* x, const NormWeights<T>& norm, const T* w,
            const T* bias, const T* residual, T* y);

// normalization.cpp
template <typename T>
void layer_norm(Context&, const T* x, const T* weight, const T* bias, T* y, T* mean, T* scale,
                int64_t R, int64_t C);
template <typename T>
void layer_norm_backward(Context&, const T* x, const T* weight, const T* mean, const T* scale,
                         const T* dy, T* dx, T* dweight, T* dbias, int64_t R, int64_t C);
template <typename T>
void softmax(Context&, const T* x, T* y, int64_t R, int64_t C);
template <typename T>
void softmax_backward(Context&, const T* y, const T* dy, T* dx, int64_t R, int64_t C);
template <typename T>
void normalize(Context&, const T* x, T* y, T* sums, int64_t R, int64_t C);
template <typename T>
void normalize_backward(Context&, const T* y, const T* sums, const T* dy, T* dx, int64_t R,
                        int64_t C);

// tokens.cpp
template <typename T>
void embedding(Context&, const T* table, const int32_t* ids, T* y, int64_t R, int64_t C);
template <typename T>
void embed_position(Context&, const T* table, const int32_t* ids, const T* positions,
                    const int32_t* place, T* y, int64_t R, int64_t C);
template <typename T>
void embedding_backward(Context&, const int32_t* ids, const T* dy, T* dtable, int64_t R,
                        int64_t tokens, int64_t C);
template <typename T>
void cross_entropy(Context&, const T* logits, const int32_t* targets, T* losses, T* log_sums,
                   int64_t R, int64_t V);
template <typename T>
void mean_scored(Context&, const T* losses, const int32_t* targets, T* mean, T* scored, int64_t R);
template <typename T>
void cross_entropy_backward(Context&, const T* logits, const int32_t* targets, const T* log_sums,
                            const T* scored, const T* dmean, T* dlogits, int64_t R, int64_t V);
template <typename T>
void argmax(Context&, const T* x, int32_t* index, int64_t R, int64_t C);
template <typename T>
void sample(Context&, OutputKind, const T* outputs, int64_t V, const SamplingParams&,
            RandomStream stream, const SampledTokens&);

// logistics.cpp
template <typename T>
void logistics_loss(Context&, const T* mixtures, const int32_t* targets, T* losses, int64_t R,
                    int64_t V);
template <typename T>
void logistics_loss_backward(Context&, const T* mixtures, const int32_t* targets, const T* losses,
                             const T* scored, const T* dmean, T* dmixtures, int64_t R, int64_t V);
template <typename T>
void logistics_scores(Context&, const T* mixtures, T* scores, int64_t R, int64_t V);

// features.cpp
template <typename T>
void quadratic_features(Context&, const T* x, T* y, int64_t R, int64_t D);
template <typename T>
void quadratic_features_backward(Context&, const T* x, const T* dy, T* dx, int64_t R, int64_t D);
template <typename T>
void dpfp_features(Context&, const T* x, T* y, int64_t R, int64_t D, int64_t nu);
template <typename T>
void dpfp_features_backward(Context&, const T* x, const T* dy, T* dx, int64_t R, int64_t D,
                            int64_t nu);

// random_features.cpp
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

// codebook.cpp
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
template <typename T>
void straight_through(Context&, const ChunkShape&, const ChunkInput<T>& in, const T* queries,
                      const int32_t* code, int64_t D, HeadRows<const T> dy, const ChunkRows<T>&,
                      Strided<const T> ddenominator, const ChunkState<T>& grads, T* dk);

// chunk_forward.cpp
template <typename T>
void chunk_forward(Context&, const ChunkShape&, const ChunkInput<T>&, const ChunkState<T>&,
                   HeadRows<T> y, const ChunkRows<T>&);

// chunk_backward_query.cpp
template <typename T>
void chunk_backward_query(Context&, const ChunkShape&, const ChunkInput<T>&, HeadRows<const T> y,
                          HeadRows<const T> dy, const ChunkRows<T>&, const ChunkState<T>&,
                          HeadRows<T> dq, Strided<T> ddenominator);

// chunk_backward_key.cpp
template <typename T>
void chunk_backward_key(Context&, const ChunkShape&, const ChunkInput<T>&, HeadRows<const T> dy,
                        const ChunkRows<T>&, Strided<const T> ddenominator,
                        const ChunkState<T>& grads, HeadRows<T> dk, Strided<T> dweight,
                        HeadRows<T> dv);

// recurrent.cpp
template <typename T>
void recurrent_step(Context&, const ChunkShape&, const ChunkInput<T>&, const ChunkState<T>&,
                    const PendingUpdates<T>&, T* y);

// attention_matrix.cpp
template <typename T>
void attention_matrix(Context&, const ChunkShape&, const ChunkInput<T>&, bool causal, T* matrix);
template <typename T>
void attention_matrix_backward(Context&, const ChunkShape&, const ChunkInput<T>&, bool causal,
                               const T* dmatrix, T* dq, T* dk, T* dweight, T* ddecay);

// delta.cpp
template <typename T>
void delta_forward(Context&, const ChunkShape&, const T* q, const T* k, Strided<const T> v,
                   Strided<const T> beta, T* state, Strided<T> y);
template <typename T>
void delta_backward(Context&, const ChunkShape&, const T* q, const T* k, Strided<const T> v,
                    Strided<const T> beta, Strided<const T> dy, const T* state, T* dstate, T* dq,
                    T* dk, Strided<T> dv, Strided<T> dbeta);
template <typename T>
void delta_step(Context&, const T* q, const T* k, const T* v, const T* beta, T* state, T* y,
                int64_t P, int64_t F, int64_t M);
template <typename T>
void solve_unit_lower(Context&, const T* l, const T* e, T* x, bool transpose, int64_t P, int64_t N,
                      int64_t M);

// panels.cpp
template <typename T, typename W>
void pack_panels(Context&, const T* w, W* panels, int64_t out, int64_t in);
template <typename T, typename W>
void panel_gemm(Context&, const T* x, const W* panels, const T* bias, T* y, int64_t R, int64_t out,
                int64_t in);

// softmax_attention.cpp
template <typename T>
void softmax_attention(Context&, const SoftmaxShape&, const HeadRows<const T>& q,
                       const HeadRows<const T>& k, const HeadRows<const T>& v, const HeadRows<T>& y,
                       T* log_sums);
template <typename T>
void softmax_attention_backward(Context&, const SoftmaxShape&, const HeadRows<const T>& q,
                                const HeadRows<const T>& k, const HeadRows<const T>& v,
                                const HeadRows<const T>& y, const T* log_sums,
                                const HeadRows<const T>& dy, const HeadRows<T>& dq,
                                const HeadRows<T>& dk, const HeadRows<T>& dv);

// optimizer.cpp
template <typename T>
void sum_squares(Context&, const TrainedParameter<T>*, size_t count, double* total);
template <typename T>
void clip_scale(Context&, const double* total, const Accumulator<T>* loss, double clip);
template <typename T>
void adam(Context&, const AdamConstants&, const TrainedParameter<T>*, size_t count);

}  // namespace linea::cpu
