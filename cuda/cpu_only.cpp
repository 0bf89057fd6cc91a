// Topics whose kernels run on a CPU alone so far.
#include "cuda/kernel_tables.h"

namespace linea::cuda {

LINEA_KERNEL_TABLE(SparseAttentionKernels, .sparse_attention = NoKernel<"sparse attention">(),
                   .sparse_attention_backward = NoKernel<"sparse attention">())

LINEA_KERNEL_TABLE(SpanKernels, .pool_spans = NoKernel<"spans of rows">(),
                   .pool_spans_backward = NoKernel<"spans of rows">())

LINEA_KERNEL_TABLE(TopKeysKernels, .top_keys = NoKernel<"top keys">(),
                   .largest_product = NoKernel<"top keys">(),
                   .listed_attention = NoKernel<"top keys">(),
                   .listed_attention_backward = NoKernel<"top keys">())

LINEA_KERNEL_TABLE(PanelKernels, .pack_panels = NoKernel<"packed weights">(),
                   .pack_bf16_panels = NoKernel<"packed weights">(),
                   .panel_gemm = NoKernel<"packed weights">(),
                   .bf16_panel_gemm = NoKernel<"packed weights">())

LINEA_KERNEL_TABLE(SlotKernels, .softplus_backward = NoKernel<"slots">(),
                   .divide_by_count = NoKernel<"slots">(), .segment_means = NoKernel<"slots">(),
                   .segment_means_backward = NoKernel<"slots">(),
                   .transpose_over_norm = NoKernel<"slots">(),
                   .transpose_over_norm_backward = NoKernel<"slots">(),
                   .centered_convolution = NoKernel<"slots">(),
                   .centered_convolution_backward = NoKernel<"slots">())

LINEA_KERNEL_TABLE(DecayKernels, .log_decays = NoKernel<"log_decays">(),
                   .log_decays_backward = NoKernel<"log_decays_backward">(),
                   .sum_back = NoKernel<"sum_back">())

LINEA_KERNEL_TABLE(RotaryKernels, .rotate = NoKernel<"rotary positions">())

}  // namespace linea::cuda
