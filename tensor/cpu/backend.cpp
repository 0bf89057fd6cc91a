// The backend of the CPU: its kernel tables, and bytes moved there.
#include <cstring>

#include "tensor/backend.h"
#include "tensor/cpu/cpu_kernels.h"
#include "tensor/cpu/simd.h"
#include "tensor/memory_report.h"

#ifndef LINEA_CPU_BACKEND  // named by cmake/cpu_isa.cmake
#define LINEA_CPU_BACKEND cpu_backend_base
#endif

namespace linea {
namespace {

void clear_bytes(Context&, void* to, size_t bytes) { std::memset(to, 0, bytes); }
void wait(Context&) {}
void copy_bytes(Context&, void* to, const void* from, size_t bytes) {
  std::memcpy(to, from, bytes);
}

constexpr DeviceMemory kCpuMemory = {.allocator = cpu_allocator,
                                     .use = cpu_memory,
                                     .limit = cpu_memory_limit,
                                     .reset_peak = reset_cpu_peak,
                                     .release_cache = release_cpu_cache,
                                     .clear = clear_bytes,
                                     .copy = copy_bytes,
                                     .read = copy_bytes,
                                     .write = copy_bytes,
                                     .wait = wait};

template <typename T>
constexpr Kernels<T> kCpuKernels = {
    .fill = cpu::fill<T>,
    .add = cpu::add<T>,
    .multiply = cpu::multiply<T>,
    .scale = cpu::scale<T>,
    .accumulate = cpu::accumulate<T>,
    .pointwise = cpu::pointwise<T>,
    .pointwise_backward = cpu::pointwise_backward<T>,
    .widen = cpu::widen<T>,
    .narrow = cpu::narrow<T>,
    .gelu_recompute = cpu::gelu_recompute<T>,
    .dropout = cpu::dropout<T>,
    .add_rows = cpu::add_rows<T>,
    .sum_rows = cpu::sum_rows<T>,
    .permute = cpu::permute<T>,
    .copy_rows = cpu::copy_rows<T>,
    .clear_padding = cpu::clear_padding<T>,
    .gemm = cpu::gemm<T>,
    .linear = cpu::linear<T>,
    .pack_panels = cpu::pack_panels<T, T>,
    .pack_bf16_panels = cpu::pack_panels<T, BFloat16>,
    .panel_gemm = cpu::panel_gemm<T, T>,
    .bf16_panel_gemm = cpu::panel_gemm<T, BFloat16>,
    .layer_norm = cpu::layer_norm<T>,
    .layer_norm_backward = cpu::layer_norm_backward<T>,
    .softmax = cpu::softmax<T>,
    .softmax_backward = cpu::softmax_backward<T>,
    .normalize = cpu::normalize<T>,
    .normalize_backward = cpu::normalize_backward<T>,
    .mask_causal = cpu::mask_causal<T>,
    .embedding = cpu::embedding<T>,
    .embedding_backward = cpu::embedding_backward<T>,
    .cross_entropy = cpu::cross_entropy<T>,
    .mean_scored = cpu::mean_scored<T>,
    .cross_entropy_backward = cpu::cross_entropy_backward<T>,
    .argmax = cpu::argmax<T>,
    .embed_position = cpu::embed_position<T>,
    .sample = cpu::sample<T>,
    .logistics_loss = cpu::logistics_loss<T>,
    .logistics_loss_backward = cpu::logistics_loss_backward<T>,
    .logistics_scores = cpu::logistics_scores<T>,
    .quadratic_features = cpu::quadratic_features<T>,
    .quadratic_features_backward = cpu::quadratic_features_backward<T>,
    .dpfp_features = cpu::dpfp_features<T>,
    .dpfp_features_backward = cpu::dpfp_features_backward<T>,
    .random_logs = cpu::random_logs<T>,
    .random_logs_backward = cpu::random_logs_backward<T>,
    .square_norms = cpu::square_norms<T>,
    .square_norms_backward = cpu::square_norms_backward<T>,
    .sine_cosine = cpu::sine_cosine<T>,
    .sine_cosine_backward = cpu::sine_cosine_backward<T>,
    .mixture_logs = cpu::mixture_logs<T>,
    .mixture_logs_backward = cpu::mixture_logs_backward<T>,
    .add_to_heads = cpu::add_to_heads<T>,
    .nearest_code = cpu::nearest_code<T>,
    .gather_codes = cpu::gather_codes<T>,
    .sum_by_code = cpu::sum_by_code<T>,
    .one_hot_logs = cpu::one_hot_logs<T>,
    .chunk_forward = cpu::chunk_forward<T>,
    .chunk_backward_query = cpu::chunk_backward_query<T>,
    .chunk_backward_key = cpu::chunk_backward_key<T>,
    .straight_through = cpu::straight_through<T>,
    .recurrent_step = cpu::recurrent_step<T>,
    .fused_norm_step = nullptr,
    .attention_matrix = cpu::attention_matrix<T>,
    .attention_matrix_backward = cpu::attention_matrix_backward<T>,
    .delta_forward = cpu::delta_forward<T>,
    .delta_backward = cpu::delta_backward<T>,
    .delta_step = cpu::delta_step<T>,
    .solve_unit_lower = cpu::solve_unit_lower<T>,
    .reverse_cumsum = cpu::reverse_cumsum<T>,
    .softmax_attention = cpu::softmax_attention<T>,
    .softmax_attention_backward = cpu::softmax_attention_backward<T>,
    .sum_squares = cpu::sum_squares<T>,
    .clip_scale = cpu::clip_scale<T>,
    .adam = cpu::adam<T>,
    .count_nonfinite = cpu::count_nonfinite<T>,
};

void start(Context& ctx) {
  ctx.workspace = &cpu_allocator();
  ctx.queue = nullptr;
  ctx.step_on_device = ctx.step;
  ctx.sizes = WorkSizes{};
}

}  // namespace

const Backend& LINEA_CPU_BACKEND();
const Backend& LINEA_CPU_BACKEND() {
  static constexpr Backend backend = {.isa = cpu::kIsaName,
                                      .memory = kCpuMemory,
                                      .f32 = kCpuKernels<float>,
                                      .f64 = kCpuKernels<double>,
                                      .bf16 = nullptr,
                                      .start = start,
                                      .devices = nullptr,
                                      .make_graph_recorder = nullptr};
  return backend;
}

}  // namespace linea
