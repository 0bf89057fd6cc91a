// Topics whose kernels run on a CPU alone so far.
#include "cuda/kernel_tables.h"

namespace linea::cuda {

LINEA_NO_KERNELS(SparseAttentionKernels, "sparse attention")
LINEA_NO_KERNELS(SpanKernels, "spans of rows")
LINEA_NO_KERNELS(TopKeysKernels, "top keys")
LINEA_NO_KERNELS(PanelKernels, "packed weights")
LINEA_NO_KERNELS(SlotKernels, "slots")
LINEA_NO_KERNELS(DecayKernels, "decay")
LINEA_NO_KERNELS(RotaryKernels, "rotary positions")

}  // namespace linea::cuda
