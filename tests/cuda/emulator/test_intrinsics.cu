// Device functions, called from kernels.
#include <cmath>

#include "tensor/formulas.h"
#include "tests/cuda/emulator/emulated.h"

namespace linea::cuda {
namespace {

__global__ void count_bits(long long* y) {
  int i = 0;
  y[i++] = __popc(0xf0f0u) + __popcll(~0ull) * 100;
  y[i++] = __clz(1) + __clz(0) * 100 + __clzll(1) * 10000;
  y[i++] = __ffs(8) + __ffs(0) * 100 + __ffsll(1ll << 40) * 10000;
  y[i++] = __brev(1) == 0x80000000u && __brev(0x12345678u) == 0x1e6a2c48u;
  y[i++] = static_cast<int>(__umulhi(0x80000000u, 6)) + __mulhi(-1, 1) * 100;
  y[i++] = static_cast<long long>(__umul64hi(1ull << 63, 6));
  y[i++] = __funnelshift_l(0x80000000u, 1, 1) + __funnelshift_r(0, 1, 4) / 0x1000000;
  y[i++] = __float_as_int(1.0f) == 0x3f800000 && __int_as_float(0x40000000) == 2.0f;
  y[i++] = __double_as_longlong(1.0) == 0x3ff0000000000000;
  y[i++] = min(3, -4) + max(5u, 7u) + static_cast<int>(max(1ll, 2ll));
  y[i++] = static_cast<long long>(min(1.5f, 2.5f) * 2 + max(1.5, 2.5) * 20);
  y[i++] = __float2int_rn(2.5f) + __float2int_rd(-2.5f) * 10;
  y[i++] = __float2int_ru(2.1f) + __float2int_rz(-2.9f) * 10;
}

TEST(Intrinsics, OnBits) {
  const DeviceArray<long long> y(13);
  launch(count_bits, 1, 1, 0, nullptr, y.data());
  const std::vector<long long> expected{6408, 633231, 410004, 1,  3 - 100, 3,     3 + 16,
                                        1,    1,      5,      53, 2 - 30,  3 - 20};
  EXPECT_EQ(y.values(), expected);
}

template <typename T>
__global__ void use_floats(T* y, T x) {
  const float value = static_cast<float>(x);
  y[0] =
      static_cast<T>(std::exp(value) + std::log(value) + std::tanh(value) + linea::exp_of(value));
  y[1] = static_cast<T>(__expf(value) + __logf(value) + tanhf(value) + expf(value));
  y[2] = static_cast<T>(rsqrtf(value) + __frcp_rn(value) + __fdividef(value, 2.0f));
  y[3] = __ldg(&y[2]) + T(1);
}

template <typename T>
void expect_floats(double tolerance) {
  const DeviceArray<T> y(4);
  launch(use_floats<T>, 1, 1, 0, nullptr, y.data(), static_cast<T>(1.5f));
  const std::vector<T> values = y.values();
  const auto at = [&](size_t i) { return static_cast<double>(static_cast<float>(values[i])); };
  const double first = 2 * std::exp(1.5) + std::log(1.5) + std::tanh(1.5);
  const double third = 1 / std::sqrt(1.5) + 1 / 1.5 + 0.75;
  EXPECT_NEAR(at(0), first, tolerance * first);
  EXPECT_NEAR(at(1), first, tolerance * first);
  EXPECT_NEAR(at(2), third, tolerance * third);
  EXPECT_NEAR(at(3), third + 1, tolerance * 4);
}

TEST(Intrinsics, OnFloats) {
  expect_floats<float>(1e-6);
  expect_floats<double>(1e-6);
  expect_floats<__nv_bfloat16>(1e-2);
}

__global__ void use_halves(__nv_bfloat16* y, const __nv_bfloat162* x) {
  const __nv_bfloat162 v = x[0];
  y[0] = __hfma(v.x, v.y, __float2bfloat16(1.0f));
  y[1] = __hfma2(v, v, v).y;
  y[2] = __float22bfloat162_rn(make_float2(1.0f, 7.0f)).y;
  y[3] = v.x + v.y;
}

TEST(Intrinsics, OnHalves) {
  const DeviceArray<__nv_bfloat162> x(
      std::vector<__nv_bfloat162>{__floats2bfloat162_rn(2.0f, 3.0f)});
  const DeviceArray<__nv_bfloat16> y(4);
  launch(use_halves, 1, 1, 0, nullptr, y.data(), x.data());
  const std::vector<__nv_bfloat16> values = y.values();
  const float expected[] = {7, 12, 7, 5};
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(__bfloat162float(values[i]), expected[i]);
}

}  // namespace
}  // namespace linea::cuda
