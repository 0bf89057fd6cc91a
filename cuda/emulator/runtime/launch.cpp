// Which launches a device takes, and putting them on a stream.
#include "cuda/emulator/launch.h"

#include <map>
#include <utility>

#include "cuda/emulator/block/grid.h"
#include "cuda/emulator/runtime/limits.h"
#include "cuda/emulator/runtime/stream.h"

namespace linea::emulator {
namespace {

// Bytes of dynamic shared memory that each kernel may be given.
std::map<const void*, int>& allowed_shared() {
  static std::map<const void*, int> instance;
  return instance;
}

int allowed_shared_bytes(const void* kernel) {
  const auto found = allowed_shared().find(kernel);
  return found == allowed_shared().end() ? kSharedBytes : found->second;
}

bool within(dim3 size, dim3 least, dim3 most) {
  return size.x >= least.x && size.y >= least.y && size.z >= least.z && size.x <= most.x &&
         size.y <= most.y && size.z <= most.z;
}

cudaError_t check(const Launch& launch) {
  if (const cudaError_t error = need_device(); error != cudaSuccess) return error;
  const dim3 one(1, 1, 1);
  const dim3& block = launch.block;
  if (!within(launch.grid, one, kMaxBlocks) || !within(block, one, kMaxThreadsEach) ||
      block.x * block.y * block.z > kMaxThreadsOfBlock)
    return cudaErrorInvalidConfiguration;
  if (launch.shared_bytes > static_cast<size_t>(allowed_shared_bytes(launch.kernel)))
    return cudaErrorInvalidValue;
  return cudaSuccess;
}

}  // namespace

cudaError_t enqueue(Launch launch, cudaStream_t stream) {
  const std::lock_guard lock(runtime_mutex());
  if (const cudaError_t error = check(launch); error != cudaSuccess) return remember(error);
  return remember(issue(stream, [launch = std::move(launch)] { run_grid(launch); }));
}

}  // namespace linea::emulator

using namespace linea::emulator;

extern "C" {

cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute attribute, int value) {
  const std::lock_guard lock(runtime_mutex());
  if (attribute == cudaFuncAttributePreferredSharedMemoryCarveout) return cudaSuccess;
  if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize || value < 0 ||
      value > kSharedBytesOnRequest)
    return remember(cudaErrorInvalidValue);
  allowed_shared()[kernel] = value;
  return cudaSuccess;
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* kernel) {
  const std::lock_guard lock(runtime_mutex());
  *attributes = {};
  attributes->maxThreadsPerBlock = kMaxThreadsOfBlock;
  attributes->maxDynamicSharedSizeBytes = allowed_shared_bytes(kernel);
  return cudaSuccess;
}

// Threads and shared memory alone: the emulator knows nothing of registers.
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void*, int threads,
                                                          size_t shared_bytes) {
  const int by_threads = kThreadsOfProcessor / (threads > 0 ? threads : 1);
  const int by_memory =
      kSharedBytesOfProcessor / static_cast<int>(shared_bytes + kSharedBytesOfSystem);
  *blocks = by_threads < by_memory ? by_threads : by_memory;
  return cudaSuccess;
}

}  // extern "C"
