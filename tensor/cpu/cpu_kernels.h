// The CPU kernels, in the order of kernels.h; each is defined in the file named above it and compiled
// for float and double there.
#pragma once

#include "tensor/kernels.h"

namespace linea::cpu {

// elementwise.cpp
template <typename T> void add(Context&, const T* a, const T* b, T* y, int64_t n);
template <typename T> void multiply(Context&, const T* a, const T* b, T* y, int64_t n);
template <typename T> void scale(Context&, const T* x, double factor, T* y, int64_t n);
template <typename T> void accumulate(Context&, const T* x, T* y, int64_t n);
template <typename T> void pointwise(Context&, Pointwise f, const T* x, T* y, int64_t n);
template <typename T>
void pointwise_backward(Context&, Pointwise f, const T* x, const T* dy, T* dx, int64_t n);
template <typename T>
void dropout(Context&, const T* x, T* y, int64_t n, float rate, uint32_t lane);
template <typename T> void count_nonfinite(Context&, const T* x, int32_t* count, int64_t n);

// rows.cpp
template <typename T> void add_rows(Context&, const T* x, const T* row, T* y, int64_t R, int64_t C);
template <typename T> void sum_rows(Context&, const T* x, T* y, int64_t R, int64_t C);
template <typename T> void permute(Context&, const PermuteShape&, const T* x, T* y);
template <typename T>
void copy_runs(Context&, Strided<const T> x, Strided<T> y, int64_t P, int64_t run);
template <typename T>
void clear_padding(Context&, const ValidKeys&, T* x, int64_t P, int64_t S, int64_t C, int64_t first);
template <typename T>
void mask_causal(Context&, const T* x, T* y, int64_t R, int64_t N, double value);

// gemm.cpp
template <typename T> void gemm(Context&, const GemmShape&, const T* a, const T* b, T* c);

// normalization.cpp
template <typename T>
void layer_norm(Context&, const T* x, const T* gain, const T* bias, T* y, T* mean, T* scale,
                int64_t R, int64_t C);
template <typename T>
void layer_norm_backward(Context&, const T* x, const T* gain, const T* mean, const T* scale,
                         const T* dy, T* dx, T* dgain, T* dbias, int64_t R, int64_t C);
template <typename T> void softmax(Context&, const T* x, T* y, int64_t R, int64_t C);
template <typename T>
void softmax_backward(Context&, const T* y, const T* dy, T* dx, int64_t R, int64_t C);
template <typename T>
void normalize(Context&, const T* x, T* y, T* sums, int64_t R, int64_t C);
template <typename T>
void normalize_backward(Context&, const T* y, const T* sums, const T* dy, T* dx, int64_t R,
                        int64_t C);

// symbols.cpp
template <typename T>
void embedding(Context&, const T* table, const int32_t* ids, T* y, int64_t R, int64_t C);
template <typename T>
void embedding_backward(Context&, const int32_t* ids, const T* dy, T* dtable, int64_t R,
                        int64_t symbols, int64_t C);
template <typename T>
void cross_entropy(Context&, const T* logits, const int32_t* targets, T* losses, T* log_sums,
                   int64_t R, int64_t V);
template <typename T>
void mean_scored(Context&, const T* losses, const int32_t* targets, T* mean, T* scored, int64_t R);
template <typename T>
void cross_entropy_backward(Context&, const T* logits, const int32_t* targets, const T* log_sums,
                            const T* scored, const T* dmean, T* dlogits, int64_t R, int64_t V);
template <typename T> void argmax(Context&, const T* x, int32_t* index, int64_t R, int64_t C);
template <typename T>
void sample(Context&, const T* logits, int32_t* index, int64_t R, int64_t V, double temperature,
            RandomStream stream);

// features.cpp
template <typename T> void square_features(Context&, const T* x, T* y, int64_t R, int64_t D);
template <typename T>
void square_features_backward(Context&, const T* x, const T* dy, T* dx, int64_t R, int64_t D);
template <typename T>
void dpfp_features(Context&, const T* x, T* y, int64_t R, int64_t D, int64_t nu);
template <typename T>
void dpfp_features_backward(Context&, const T* x, const T* dy, T* dx, int64_t R, int64_t D,
                            int64_t nu);

// chunk.cpp
template <typename T>
void chunk_forward(Context&, const ChunkShape&, const T* q, const T* k, Strided<const T> v,
                   T* state, T* key_sum, Strided<T> y, Strided<T> denominator);
template <typename T>
void recurrent_step(Context&, const T* q, const T* k, const T* v, T* state, T* key_sum, T* y,
                    int64_t P, int64_t F, int64_t M);
template <typename T>
void chunk_backward_query(Context&, const ChunkShape&, const T* q, const T* k, Strided<const T> v,
                          Strided<const T> dy, Strided<const T> denominator, T* state, T* key_sum,
                          T* dq, Strided<T> ddenominator);
template <typename T>
void chunk_backward_key(Context&, const ChunkShape&, const T* q, const T* k, Strided<const T> v,
                        Strided<const T> dy, Strided<const T> denominator,
                        Strided<const T> ddenominator, T* dstate, T* dkey_sum, T* dk,
                        Strided<T> dv);

// softmax_attention.cpp
template <typename T>
void softmax_attention(Context&, const SoftmaxShape&, const T* q, const T* k, const T* v, T* y,
                       T* log_sums);
template <typename T>
void softmax_attention_backward(Context&, const SoftmaxShape&, const T* q, const T* k, const T* v,
                                const T* y, const T* log_sums, const T* dy, T* dq, T* dk, T* dv);

// optimizer.cpp
template <typename T> void sum_squares(Context&, const T* x, double* total, int64_t n);
void clip_scale(Context&, const double* total, double clip);
template <typename T>
void adam(Context&, const AdamConstants&, const T* gradient, T* parameter, T* mean, T* square,
          int64_t n);

}  // namespace linea::cpu
