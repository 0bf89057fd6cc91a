// Sampling of tokens from a model's outputs.
#include "cuda/sampling.h"

#include "cuda/grid.h"
#include "cuda/kernel_tables.h"
#include "tensor/workspace.h"

namespace linea::cuda {

template <typename T>
void argmax(Context& ctx, const T* x, int32_t* index, int64_t R, int64_t C) {
  for_each_team(ctx, R, C, [=] __device__(auto team, int64_t r) {
    const int64_t found = first_largest(team, x + r * C, C);
    if (team.rank() == 0) index[r] = static_cast<int32_t>(found);
  });
}

template <typename T>
void sample(Context& ctx, OutputKind kind, const T* outputs, int64_t V,
            const SamplingParams& params, RandomStream stream_of_rows, const SampledTokens& to) {
  if (to.rows <= 0) return;
  // Rows at a time; each needs memory for its weights and their order.
  const int64_t max = ctx.sizes.block / 16 / V + 1;
  const int64_t blocks = to.rows < max ? to.rows : max;
  const bool cut = !params.greedy && ((params.top_k > 0 && params.top_k < V) || params.top_p < 1);
  const int64_t slots = cut ? power_of_two_from(V) : 0;
  const bool mixtures = kind == OutputKind::logistics;
  const Workspace<double> weights(ctx, blocks * V);
  const Workspace<int32_t> order(ctx, blocks * (slots > 0 ? slots : 1));
  launch(mixtures ? sample_kernel<OutputKind::logistics, T> : sample_kernel<OutputKind::logits, T>,
         dim3(static_cast<unsigned>(blocks)), dim3(kBlockThreads), 0, stream(ctx), outputs,
         mixtures ? 3 * kLogistics : V, V, params, stream_of_rows, to, weights.data(), order.data(),
         slots);
}

LINEA_KERNEL_TABLE(SamplingKernels, .argmax = argmax<T>, .sample = sample<T>)

}  // namespace linea::cuda
