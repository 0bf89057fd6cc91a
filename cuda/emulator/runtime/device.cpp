// Device properties and runtime errors.
#include <cstring>
#include <utility>

#include "cuda/emulator/runtime/limits.h"
#include "cuda/emulator/runtime/stream.h"
#include "cuda/emulator/settings.h"

namespace linea::emulator {
namespace {

thread_local cudaError_t g_last_error = cudaSuccess;

}  // namespace

cudaError_t record_error(cudaError_t error) {
  if (error != cudaSuccess) g_last_error = error;
  return error;
}

cudaError_t require_device() { return settings().devices > 0 ? cudaSuccess : cudaErrorNoDevice; }

}  // namespace linea::emulator

using namespace linea::emulator;

namespace {

cudaDeviceProp properties() {
  cudaDeviceProp result{};
  std::strcpy(result.name, "Emulated GPU");
  result.major = settings().capability / 10;
  result.minor = settings().capability % 10;
  result.totalGlobalMem = settings().memory;
  result.multiProcessorCount = 4;
  result.warpSize = 32;
  result.maxThreadsPerBlock = kMaxThreadsPerBlock;
  result.sharedMemPerBlock = kSharedBytes;
  result.sharedMemPerBlockOptin = kSharedBytesOptIn;
  return result;
}

}  // namespace

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  *count = settings().devices;
  return record_error(require_device());
}

cudaError_t cudaSetDevice(int device) {
  if (const cudaError_t error = require_device(); error != cudaSuccess) return record_error(error);
  return device < settings().devices ? cudaSuccess : record_error(cudaErrorInvalidDevice);
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* result, int device) {
  if (const cudaError_t error = cudaSetDevice(device); error != cudaSuccess) return error;
  *result = properties();
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  if (const cudaError_t error = cudaSetDevice(device); error != cudaSuccess) return error;
  switch (attribute) {
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = kSharedBytesOptIn;
      break;
    case cudaDevAttrComputeCapabilityMajor:
      *value = settings().capability / 10;
      break;
    case cudaDevAttrComputeCapabilityMinor:
      *value = settings().capability % 10;
      break;
    case cudaDevAttrMemoryPoolsSupported:
      *value = 1;
      break;
    default:
      return record_error(cudaErrorNotSupported);
  }
  return cudaSuccess;
}

// ---- errors ----

cudaError_t cudaGetLastError() { return std::exchange(g_last_error, cudaSuccess); }
cudaError_t cudaPeekAtLastError() { return g_last_error; }

namespace {

struct ErrorText {
  cudaError_t error;
  const char *name, *text;
};

// The errors that the emulator returns.
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
                                "an error unknown to the emulator"};

const ErrorText& find_error(cudaError_t error) {
  for (const ErrorText& known : kErrors)
    if (known.error == error) return known;
  return kOtherError;
}

}  // namespace

const char* cudaGetErrorName(cudaError_t error) { return find_error(error).name; }
const char* cudaGetErrorString(cudaError_t error) { return find_error(error).text; }

}  // extern "C"
