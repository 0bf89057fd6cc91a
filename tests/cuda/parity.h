// Runs work on the CPU and on a CUDA device, and measures how far the two are apart.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <vector>

#include "tensor/context.h"
#include "tensor/kernels.h"
#include "tensor/tensor.h"
#include "tests/sanitized.h"

namespace linea::cuda_tests {

// Set by the program that runs on a real GPU, whose sums are rounded in ways of its own.
inline bool real_gpu = false;

// Brings this thread to a device while it lives.
class On {
 public:
  explicit On(const Device& device) : before_(context().device) { use_device(device); }
  ~On() { use_device(before_); }
  On(const On&) = delete;
  On& operator=(const On&) = delete;

 private:
  Device before_;
};

inline constexpr Device kCuda{DeviceKind::cuda, 0};

// Normal numbers times `stddev`, each one that bfloat16 holds exactly: the same inputs for every
// type.
template <typename T>
Tensor input(const Shape& shape, uint32_t lane, double stddev = 1.0) {
  const RandomStream numbers{7, Purpose::test, lane, 0};
  std::vector<T> values;
  for (int64_t i = 0; i < shape.numel(); ++i)
    values.push_back(
        static_cast<T>(static_cast<float>(BFloat16(stddev * random_normal(numbers, i)))));
  return Tensor::from(values, shape);
}

// Numbers whose sums are rounded: another order of additions gives other bits.
template <typename T>
std::vector<T> waves(int64_t count) {
  std::vector<T> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(T(std::sin(static_cast<float>(i))));
  return values;
}

// Memory that a kernel fills.
template <typename T>
Tensor unset(const Shape& shape) {
  return Tensor(shape, dtype_of(T{}));
}

// Elements by which the inputs and the outputs of a kernel begin after an address aligned to 16 bytes.
// Between loops, the outermost: each third call then meets all of them (left_out()).
struct Shift {
  int64_t in, out;
};
inline constexpr Shift kShifts[] = {{0, 0}, {1, 0}, {0, 1}};

template <typename T>
const Kernels<T>& table() {
  return kernels<T>(context().device);
}

// The largest difference of two tensors over the largest number of `expected`; NaN where either has
// one alone, or where infinities differ.
inline double distance(const std::vector<double>& got, const std::vector<double>& expected) {
  double largest = 0, apart = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    if (got[i] == expected[i] || (std::isnan(got[i]) && std::isnan(expected[i]))) continue;
    if (!std::isfinite(got[i]) || !std::isfinite(expected[i])) return std::nan("");
    apart = std::max(apart, std::abs(got[i] - expected[i]));
  }
  for (const double x : expected)
    if (std::isfinite(x)) largest = std::max(largest, std::abs(x));
  return apart / (largest > 0 ? largest : 1.0);
}

inline std::vector<double> numbers(const Tensor& x) {
  if (x.dtype() != DType::i32) return x.to_doubles();
  const std::vector<int32_t> values = x.to_vector<int32_t>();
  return {values.begin(), values.end()};
}

struct Bounds {
  double f32 = 1e-5, f64 = 1e-12, bf16 = 1e-2;
};

// body(T{}) returns the tensors that it made on the context's device. Reference is the type of the
// CPU's run. Nothing is done in double where the build has no such kernels
// (LINEA_CUDA_WITHOUT_DOUBLE).
template <typename T, typename Reference, typename Body>
void expect_close(const Body& body, double bound) {
  if (std::is_same_v<T, double> && kernels<double>(kCuda).fill == nullptr) return;
  std::vector<std::vector<double>> expected;
  for (const Tensor& x : body(Reference{})) expected.push_back(numbers(x));
  const On device(kCuda);
  const std::vector<Tensor> got = body(T{});
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    const double apart = distance(numbers(got[i]), expected[i]);
    EXPECT_TRUE(apart <= bound) << "tensor " << i << " of " << name_of(dtype_of(T{})) << ": "
                                << apart << " > " << bound;
  }
}

// LINEA_TEST_SHARE=n in the environment, for builds that check every memory access:
// of what a test goes through, each n-th will do. Under the sanitizers each third; an odd number
// meets both sides of a switch.
inline int64_t asked_share() {
  static const char* const text = std::getenv("LINEA_TEST_SHARE");
  static const int64_t share =
      text == nullptr ? (kSanitized ? 3 : 1) : std::max<int64_t>(std::atoll(text), 1);
  return share;
}
inline bool a_share() { return kSanitized || asked_share() > 1; }

// All that a test goes through. An emulated GPU takes minutes for it: without LINEA_LONG_TESTS, and
// where no share is asked for, it goes through a third.
inline bool long_tests() { return std::getenv("LINEA_LONG_TESTS") != nullptr; }

// Whether this call is among those of a test to be left out. The first never is.
inline bool left_out() {
  static const testing::TestInfo* test = nullptr;
  static int64_t calls = 0;
  const testing::TestInfo* now = testing::UnitTest::GetInstance()->current_test_info();
  calls = now == test ? calls + 1 : 0;
  test = now;
  static const bool asked = std::getenv("LINEA_TEST_SHARE") != nullptr || kSanitized;
  return calls % (asked || real_gpu || long_tests() ? asked_share() : 3) != 0;
}

// In float and double, unless the call is left out. double has float's code, so a share goes without.
template <typename Body>
bool expect_real_parity(const Body& body, const Bounds& bounds = {}) {
  if (left_out()) return false;
  expect_close<float, float>(body, bounds.f32);
  if (!a_share()) expect_close<double, double>(body, bounds.f64);
  return true;
}

// In every type that the device has; bfloat16 against the CPU's float.
template <typename Body>
void expect_parity(const Body& body, const Bounds& bounds = {}) {
  if (expect_real_parity(body, bounds)) expect_close<BFloat16, float>(body, bounds.bf16);
}

}  // namespace linea::cuda_tests
