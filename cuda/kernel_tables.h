// The kernel tables of a CUDA device by topic, each defined at the end of the file that defines its
// kernels, for float, double and BFloat16.
#pragma once

#include "tensor/kernels.h"

// Instantiates the function that returns a table. Kernels of double serve comparisons on the
// emulated GPU; checked builds omit them: their code is that of float, and they take a third of the
// compile time.
#ifdef LINEA_CUDA_WITHOUT_DOUBLE
#define LINEA_INSTANTIATE(Table, table) \
  template Table<float> table();        \
  template Table<BFloat16> table();
#else
#define LINEA_INSTANTIATE(Table, table) \
  template Table<float> table();        \
  template Table<double> table();       \
  template Table<BFloat16> table();
#endif

namespace linea::cuda {

template <typename T>
ElementwiseKernels<T> elementwise_kernels();
template <typename T>
RowKernels<T> row_kernels();
template <typename T>
MatrixKernels<T> matrix_kernels();
template <typename T>
LinearKernels<T> linear_kernels();
template <typename T>
PanelKernels<T> panel_kernels();
template <typename T>
NormalizationKernels<T> normalization_kernels();
template <typename T>
EmbeddingKernels<T> embedding_kernels();
template <typename T>
LossKernels<T> loss_kernels();
template <typename T>
SamplingKernels<T> sampling_kernels();
template <typename T>
FeatureKernels<T> feature_kernels();
template <typename T>
RandomFeatureKernels<T> random_feature_kernels();
template <typename T>
CodebookKernels<T> codebook_kernels();
template <typename T>
ChunkForwardKernels<T> chunk_forward_kernels();
template <typename T>
ChunkBackwardQueryKernels<T> chunk_backward_query_kernels();
template <typename T>
ChunkBackwardKeyKernels<T> chunk_backward_key_kernels();
template <typename T>
StraightThroughKernels<T> straight_through_kernels();
template <typename T>
RecurrentKernels<T> recurrent_kernels();
template <typename T>
DeltaKernels<T> delta_kernels();
template <typename T>
DeltaStepKernels<T> delta_step_kernels();
template <typename T>
SoftmaxAttentionKernels<T> softmax_attention_kernels();
template <typename T>
OptimizerKernels<T> optimizer_kernels();

}  // namespace linea::cuda
