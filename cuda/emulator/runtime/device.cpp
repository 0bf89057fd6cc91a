// The device, and the errors of the runtime.
#include <cstring>

#include "cuda/emulator/runtime/limits.h"
#include "cuda/emulator/runtime/stream.h"
#include "cuda/emulator/settings.h"

namespace linea::emulator {
namespace {

thread_local cudaError_t g_last = cudaSuccess;

}  // namespace

cudaError_t remember(cudaError_t error) {
  if (error != cudaSuccess) g_last = error;
  return error;
}

cudaError_t take_last_error() {
  const cudaError_t error = g_last;
  g_last = cudaSuccess;
  return error;
}

cudaError_t last_error() { return g_last; }

cudaError_t need_device() { return settings().devices > 0 ? cudaSuccess : cudaErrorNoDevice; }

}  // namespace linea::emulator

using namespace linea::emulator;

namespace {

cudaDeviceProp properties() {
  cudaDeviceProp all{};
  std::strcpy(all.name, "Emulated GPU");
  all.major = kMajor;
  all.minor = kMinor;
  all.totalGlobalMem = settings().memory;
  all.multiProcessorCount = kProcessors;
  all.warpSize = 32;
  all.maxThreadsPerBlock = kMaxThreadsOfBlock;
  all.maxThreadsPerMultiProcessor = kThreadsOfProcessor;
  all.maxBlocksPerMultiProcessor = 32;
  all.sharedMemPerBlock = kSharedBytes;
  all.sharedMemPerBlockOptin = kSharedBytesOnRequest;
  all.sharedMemPerMultiprocessor = kSharedBytesOfProcessor;
  all.reservedSharedMemPerBlock = kSharedBytesOfSystem;
  all.regsPerBlock = all.regsPerMultiprocessor = 65536;
  all.l2CacheSize = 50 << 20;
  const dim3 limits[] = {kMaxThreadsEach, kMaxBlocks};
  int* const places[] = {all.maxThreadsDim, all.maxGridSize};
  for (int i = 0; i < 2; ++i) {
    places[i][0] = static_cast<int>(limits[i].x);
    places[i][1] = static_cast<int>(limits[i].y);
    places[i][2] = static_cast<int>(limits[i].z);
  }
  all.unifiedAddressing = all.concurrentKernels = all.memoryPoolsSupported = 1;
  return all;
}

}  // namespace

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  *count = settings().devices;
  return remember(need_device());
}

cudaError_t cudaSetDevice(int device) {
  if (const cudaError_t error = need_device(); error != cudaSuccess) return remember(error);
  return device == 0 ? cudaSuccess : remember(cudaErrorInvalidDevice);
}

cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return remember(need_device());
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* result, int device) {
  if (const cudaError_t error = cudaSetDevice(device); error != cudaSuccess) return error;
  *result = properties();
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  if (const cudaError_t error = cudaSetDevice(device); error != cudaSuccess) return error;
  const cudaDeviceProp all = properties();
  switch (attribute) {
    case cudaDevAttrComputeCapabilityMajor:
      *value = all.major;
      return cudaSuccess;
    case cudaDevAttrComputeCapabilityMinor:
      *value = all.minor;
      return cudaSuccess;
    case cudaDevAttrMultiProcessorCount:
      *value = all.multiProcessorCount;
      return cudaSuccess;
    case cudaDevAttrWarpSize:
      *value = all.warpSize;
      return cudaSuccess;
    case cudaDevAttrMaxThreadsPerBlock:
      *value = all.maxThreadsPerBlock;
      return cudaSuccess;
    case cudaDevAttrMaxThreadsPerMultiProcessor:
      *value = all.maxThreadsPerMultiProcessor;
      return cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerBlock:
      *value = kSharedBytes;
      return cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = kSharedBytesOnRequest;
      return cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
      *value = kSharedBytesOfProcessor;
      return cudaSuccess;
    case cudaDevAttrL2CacheSize:
      *value = all.l2CacheSize;
      return cudaSuccess;
    case cudaDevAttrMemoryPoolsSupported:
      *value = all.memoryPoolsSupported;
      return cudaSuccess;
    default:
      return remember(cudaErrorNotSupported);
  }
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int* version) {
  *version = settings().devices > 0 ? CUDART_VERSION : 0;
  return cudaSuccess;
}

// ---- errors ----

cudaError_t cudaGetLastError() { return take_last_error(); }
cudaError_t cudaPeekAtLastError() { return last_error(); }

namespace {

struct ErrorText {
  cudaError_t error;
  const char *name, *text;
};

// Those that the emulator returns.
constexpr ErrorText kErrors[] = {
    {cudaSuccess, "cudaSuccess", "no error"},
    {cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
    {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
    {cudaErrorInvalidConfiguration, "cudaErrorInvalidConfiguration",
     "invalid configuration argument"},
    {cudaErrorInvalidPitchValue, "cudaErrorInvalidPitchValue", "invalid pitch argument"},
    {cudaErrorNoDevice, "cudaErrorNoDevice", "no CUDA-capable device is detected"},
    {cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle", "invalid resource handle"},
    {cudaErrorIllegalState, "cudaErrorIllegalState",
     "the operation cannot be performed in the present state"},
    {cudaErrorNotReady, "cudaErrorNotReady", "device not ready"},
    {cudaErrorNotSupported, "cudaErrorNotSupported", "operation not supported"},
    {cudaErrorStreamCaptureUnsupported, "cudaErrorStreamCaptureUnsupported",
     "operation not permitted when stream is capturing"},
    {cudaErrorStreamCaptureInvalidated, "cudaErrorStreamCaptureInvalidated",
     "operation failed due to a previous error during capture"},
    {cudaErrorStreamCaptureUnmatched, "cudaErrorStreamCaptureUnmatched",
     "the capture was not initiated in this stream"},
    {cudaErrorStreamCaptureUnjoined, "cudaErrorStreamCaptureUnjoined",
     "capturing stream has unjoined work"},
    {cudaErrorStreamCaptureIsolation, "cudaErrorStreamCaptureIsolation",
     "dependency created on uncaptured work in another stream"},
    {cudaErrorStreamCaptureImplicit, "cudaErrorStreamCaptureImplicit",
     "operation would make the legacy stream depend on a capturing blocking stream"},
};

constexpr ErrorText kOtherError{cudaErrorUnknown, "cudaErrorUnknown",
                                "an error that the emulator does not know"};

const ErrorText& find_error(cudaError_t error) {
  for (const ErrorText& known : kErrors)
    if (known.error == error) return known;
  return kOtherError;
}

}  // namespace

const char* cudaGetErrorName(cudaError_t error) { return find_error(error).name; }
const char* cudaGetErrorString(cudaError_t error) { return find_error(error).text; }

}  // extern "C"
