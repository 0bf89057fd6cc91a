// y = f(norm(x) w^T + bias) of few rows of bf16 in one launch.
#pragma once

#include "tensor/kernels.h"

namespace linea::cuda {

// False where these sizes or alignments are not supported; then nothing is computed.
bool fused_norm_linear(Context&, const LinearShape&, const BFloat16* x,
                       const NormWeights<BFloat16>& norm, const BFloat16* w, const BFloat16* bias,
                       BFloat16* y);

}  // namespace linea::cuda
