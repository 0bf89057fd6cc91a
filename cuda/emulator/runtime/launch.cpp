// Validates launches and enqueues them on a stream.
#include "cuda/emulator/launch.h"

#include <map>
#include <utility>

#include "cuda/emulator/block/grid.h"
#include "cuda/emulator/runtime/limits.h"
#include "cuda/emulator/runtime/stream.h"

namespace linea::emulator {
namespace {

// The dynamic shared memory that each kernel may be launched with.
std::map<const void*, int>& allowed_shared() {
  static std::map<const void*, int> instance;
  return instance;
}

int allowed_shared_bytes(const void* kernel) {
  const auto found = allowed_shared().find(kernel);
  return found == allowed_shared().end() ? kSharedBytes : found->second;
}

bool within(dim3 size, dim3 min, dim3 max) {
  return size.x >= min.x && size.y >= min.y && size.z >= min.z && size.x <= max.x &&
         size.y <= max.y && size.z <= max.z;
}

cudaError_t check(const Launch& launch) {
  if (const cudaError_t error = require_device(); error != cudaSuccess) return error;
  const dim3 one(1, 1, 1);
  const dim3& block = launch.block;
  if (!within(launch.grid, one, kMaxGridDim) || !within(block, one, kMaxBlockDim) ||
      block.x * block.y * block.z > kMaxThreadsPerBlock)
    return cudaErrorInvalidConfiguration;
  if (launch.shared_bytes > static_cast<size_t>(allowed_shared_bytes(launch.kernel)))
    return cudaErrorInvalidValue;
  return cudaSuccess;
}

}  // namespace

cudaError_t enqueue(Launch launch, cudaStream_t stream) {
  const std::lock_guard lock(runtime_mutex());
  if (const cudaError_t error = check(launch); error != cudaSuccess) return record_error(error);
  return record_error(
      issue(stream, NodeKind::kernel, [launch = std::move(launch)] { run_grid(launch); }));
}

}  // namespace linea::emulator

using namespace linea::emulator;

extern "C" {

cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute attribute, int value) {
  const std::lock_guard lock(runtime_mutex());
  if (attribute == cudaFuncAttributePreferredSharedMemoryCarveout) return cudaSuccess;
  if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize || value < 0 ||
      value > kSharedBytesOptIn)
    return record_error(cudaErrorInvalidValue);
  allowed_shared()[kernel] = value;
  return cudaSuccess;
}

}  // extern "C"
