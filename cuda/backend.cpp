// The backend of a CUDA device, which registers itself where a program links it.
#include "cuda/cuda_kernels.h"
#include "cuda/device.h"
#include "cuda/recorder.h"

namespace linea {
namespace {

const DeviceMemory kCudaMemory = {.allocator = cuda::allocator,
                                  .use = cuda::memory_use,
                                  .limit = cuda::memory_limit,
                                  .reset_peak = cuda::reset_peak,
                                  .release_cache = cuda::release_cache,
                                  .clear = cuda::clear,
                                  .copy = cuda::copy,
                                  .read = cuda::read,
                                  .write = cuda::write,
                                  .wait = cuda::wait};

template <typename T>
constexpr Kernels<T> kCudaKernels = {
    .fill = cuda::fill<T>,
    .add = cuda::add<T>,
    .multiply = cuda::multiply<T>,
    .scale = cuda::scale<T>,
    .accumulate = cuda::accumulate<T>,
    .pointwise = cuda::pointwise<T>,
    .pointwise_backward = cuda::pointwise_backward<T>,
    .widen = cuda::widen<T>,
    .narrow = cuda::narrow<T>,
    .gelu_recompute = cuda::gelu_recompute<T>,
    .dropout = cuda::dropout<T>,
    .add_rows = cuda::add_rows<T>,
    .sum_rows = cuda::sum_rows<T>,
    .permute = cuda::permute<T>,
    .copy_rows = cuda::copy_rows<T>,
    .clear_padding = cuda::clear_padding<T>,
    .gemm = cuda::gemm<T>,
    .linear = cuda::linear<T>,
    .pack_panels = cuda::pack_panels<T, T>,
    .pack_bf16_panels = cuda::pack_panels<T, BFloat16>,
    .panel_gemm = cuda::panel_gemm<T, T>,
    .bf16_panel_gemm = cuda::panel_gemm<T, BFloat16>,
    .layer_norm = cuda::layer_norm<T>,
    .layer_norm_backward = cuda::layer_norm_backward<T>,
    .softmax = cuda::softmax<T>,
    .softmax_backward = cuda::softmax_backward<T>,
    .normalize = cuda::normalize<T>,
    .normalize_backward = cuda::normalize_backward<T>,
    .mask_causal = cuda::mask_causal<T>,
    .embedding = cuda::embedding<T>,
    .embedding_backward = cuda::embedding_backward<T>,
    .cross_entropy = cuda::cross_entropy<T>,
    .mean_scored = cuda::mean_scored<T>,
    .cross_entropy_backward = cuda::cross_entropy_backward<T>,
    .argmax = cuda::argmax<T>,
    .embed_position = cuda::embed_position<T>,
    .sample = cuda::sample<T>,
    .logistics_loss = cuda::logistics_loss<T>,
    .logistics_loss_backward = cuda::logistics_loss_backward<T>,
    .logistics_scores = cuda::logistics_scores<T>,
    .quadratic_features = cuda::quadratic_features<T>,
    .quadratic_features_backward = cuda::quadratic_features_backward<T>,
    .dpfp_features = cuda::dpfp_features<T>,
    .dpfp_features_backward = cuda::dpfp_features_backward<T>,
    .random_logs = cuda::random_logs<T>,
    .random_logs_backward = cuda::random_logs_backward<T>,
    .square_norms = cuda::square_norms<T>,
    .square_norms_backward = cuda::square_norms_backward<T>,
    .sine_cosine = cuda::sine_cosine<T>,
    .sine_cosine_backward = cuda::sine_cosine_backward<T>,
    .mixture_logs = cuda::mixture_logs<T>,
    .mixture_logs_backward = cuda::mixture_logs_backward<T>,
    .add_to_heads = cuda::add_to_heads<T>,
    .nearest_code = cuda::nearest_code<T>,
    .gather_codes = cuda::gather_codes<T>,
    .sum_by_code = cuda::sum_by_code<T>,
    .one_hot_logs = cuda::one_hot_logs<T>,
    .chunk_forward = cuda::chunk_forward<T>,
    .chunk_backward_query = cuda::chunk_backward_query<T>,
    .chunk_backward_key = cuda::chunk_backward_key<T>,
    .straight_through = cuda::straight_through<T>,
    .recurrent_step = cuda::recurrent_step<T>,
    .fused_norm_step = cuda::fused_norm_step_of<T>(),
    .attention_matrix = cuda::attention_matrix<T>,
    .attention_matrix_backward = cuda::attention_matrix_backward<T>,
    .delta_forward = cuda::delta_forward<T>,
    .delta_backward = cuda::delta_backward<T>,
    .delta_step = cuda::delta_step<T>,
    .solve_unit_lower = cuda::solve_unit_lower<T>,
    .reverse_cumsum = cuda::reverse_cumsum<T>,
    .softmax_attention = cuda::softmax_attention<T>,
    .softmax_attention_backward = cuda::softmax_attention_backward<T>,
    .sum_squares = cuda::sum_squares<T>,
    .clip_scale = cuda::clip_scale<T>,
    .adam = cuda::adam<T>,
    .count_nonfinite = cuda::count_nonfinite<T>,
};

#ifdef LINEA_CUDA_WITHOUT_DOUBLE
template <>
constexpr Kernels<double> kCudaKernels<double>{};
#endif

const Backend kCudaBackend = {.isa = nullptr,
                              .memory = kCudaMemory,
                              .f32 = kCudaKernels<float>,
                              .f64 = kCudaKernels<double>,
                              .bf16 = &kCudaKernels<BFloat16>,
                              .start = cuda::start,
                              .devices = cuda::devices,
                              .make_graph_recorder = cuda::make_graph_recorder};

struct Registration {
  Registration() { register_cuda(kCudaBackend); }
};
const Registration registration;

}  // namespace
}  // namespace linea
