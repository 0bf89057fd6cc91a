// q, k and v of one position and the step that reads them, in one launch.
#pragma once

#include "tensor/kernels.h"

namespace linea::cuda {

// False where these sizes, alignments or storage of the state are not supported; then nothing is
// computed.
bool fused_norm_step(Context&, const LinearShape&, const BFloat16* x,
                     const NormWeights<BFloat16>& norm, const BFloat16* w, const BFloat16* bias,
                     const ChunkShape&, const RecurrentView<BFloat16>&, BFloat16* y);

}  // namespace linea::cuda
