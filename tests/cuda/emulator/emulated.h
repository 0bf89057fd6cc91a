// Shared by the emulator's tests: device arrays, scheduling orders, and death tests of kernels.
#pragma once

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cuda/compat.h"
#include "cuda/emulator/sanitizer.h"
#include "cuda/emulator/settings.h"

namespace linea::cuda {

using emulator::kAddressSanitizer;
using emulator::settings;
using emulator::StreamOrder;
using emulator::ThreadOrder;

#ifdef LINEA_EMULATOR_CHECKED
inline constexpr bool kChecked = true;
#else
inline constexpr bool kChecked = false;
#endif

// An array in device memory.
template <typename T>
class DeviceArray {
 public:
  explicit DeviceArray(size_t count) : count_(count) {
    void* data = nullptr;
    check_cuda(cudaMalloc(&data, count * sizeof(T)), "cudaMalloc");
    data_ = static_cast<T*>(data);
  }
  explicit DeviceArray(const std::vector<T>& values) : DeviceArray(values.size()) {
    check_cuda(cudaMemcpy(data_, values.data(), count_ * sizeof(T), cudaMemcpyHostToDevice),
               "cudaMemcpy");
  }
  ~DeviceArray() { cudaFree(data_); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  T* data() const { return data_; }
  std::vector<T> values() const {
    std::vector<T> result(count_);
    check_cuda(cudaMemcpy(result.data(), data_, count_ * sizeof(T), cudaMemcpyDeviceToHost),
               "cudaMemcpy");
    return result;
  }

 private:
  T* data_ = nullptr;
  size_t count_;
};

// 0, 1, 2, ...
template <typename T>
std::vector<T> iota(size_t count) {
  std::vector<T> result;
  for (size_t i = 0; i < count; ++i) result.push_back(static_cast<T>(i));
  return result;
}

// Calls body() with each scheduling order, priority with several seeds; returns how often it was
// true.
template <typename Body>
int count_orders(const Body& body) {
  int count = 0;
  for (const ThreadOrder order :
       {ThreadOrder::forward, ThreadOrder::reverse, ThreadOrder::priority})
    for (uint32_t seed = 1; seed <= (order == ThreadOrder::priority ? 3u : 1u); ++seed) {
      settings().thread_order = order;
      settings().seed = seed;
      count += body();
    }
  settings().thread_order = ThreadOrder::forward;
  return count;
}

inline constexpr int kOrders = 5;

}  // namespace linea::cuda

// `statement`, run in a new process, must abort with a message that contains the extended regular
// expression.
#define EXPECT_ABORTS(statement, pattern)           \
  do {                                              \
    GTEST_FLAG_SET(death_test_style, "threadsafe"); \
    EXPECT_DEATH(statement, pattern);               \
  } while (false)
