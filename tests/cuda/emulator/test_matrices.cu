// Tensor cores: mma.sync with ldmatrix, and tiles copied by cp.async.
#include <cuda_pipeline_primitives.h>

#include "cuda/ptx.h"
#include "tests/cuda/emulator/emulated.h"

namespace linea::cuda {
namespace {

using Half = __nv_bfloat16;
constexpr int kM = 32, kN = 48, kK = 64;

// Small integers, so that every sum is exact.
std::vector<Half> small_numbers(int count, int period) {
  std::vector<Half> result;
  for (int i = 0; i < count; ++i)
    result.push_back(__float2bfloat16(static_cast<float>(i * 7 % period - period / 2)));
  return result;
}

// C [kM,kN] = A [kM,kK] B [kK,kN] by tiles of 16 x 8, one warp each; cp.async copies A and B to shared memory.
enum class Copies { waited_for, not_waited_for, never_waited_for };

__global__ void multiply_by_mma(float* c, const Half* a, const Half* b, Copies copies) {
  // Rows of 24, so that a stride of 16 would show.
  __shared__ __align__(16) Half left[16 * 24], right[16 * 8];
  const int row = static_cast<int>(blockIdx.y) * 16, column = static_cast<int>(blockIdx.x) * 8;
  const int lane = static_cast<int>(threadIdx.x);
  float sums[4] = {};
  for (int k = 0; k < kK; k += 16) {
    const int own_row = lane / 2, half = lane % 2 * 8;
    __pipeline_memcpy_async(left + own_row * 24 + half, a + (row + own_row) * kK + k + half, 16);
    if (half == 0)
      __pipeline_memcpy_async(right + own_row * 8, b + (k + own_row) * kN + column, 16);
    __pipeline_commit();
    if (copies == Copies::waited_for) __pipeline_wait_prior(0);
    __syncwarp();
    uint32_t fragment_a[4], twice_b[4];
    ldmatrix<false>(fragment_a, left + lane % 16 * 24 + lane / 16 * 8);
    ldmatrix<true>(twice_b, right + lane % 16 * 8);
    const uint32_t fragment_b[2] = {twice_b[0], twice_b[1]};
    mma_m16n8k16(sums, fragment_a, fragment_b);
    __syncwarp();
  }
  if (copies != Copies::never_waited_for) __pipeline_wait_prior(0);
  for (int i = 0; i < 4; ++i)
    c[(row + lane / 4 + i / 2 * 8) * kN + column + lane % 4 * 2 + i % 2] = sums[i];
}

class Matrices : public testing::Test {
 protected:
  // A B
  std::vector<float> expected() const {
    std::vector<float> result;
    for (int row = 0; row < kM; ++row)
      for (int column = 0; column < kN; ++column) {
        float sum = 0;
        for (int k = 0; k < kK; ++k)
          sum += __bfloat162float(a_[static_cast<size_t>(row * kK + k)]) *
                 __bfloat162float(b_[static_cast<size_t>(k * kN + column)]);
        result.push_back(sum);
      }
    return result;
  }

  std::vector<Half> a_ = small_numbers(kM * kK, 11), b_ = small_numbers(kK * kN, 13);
};

std::vector<float> product_by_mma(const std::vector<Half>& left, const std::vector<Half>& right,
                                  Copies copies) {
  const DeviceArray<Half> a(left), b(right);
  const DeviceArray<float> c(kM * kN);
  launch(multiply_by_mma, dim3(kN / 8, kM / 16), 32, 0, nullptr, c.data(), a.data(), b.data(),
         copies);
  return c.values();
}

TEST_F(Matrices, AreMultipliedByMma) {
  EXPECT_EQ(count_orders([&] { return product_by_mma(a_, b_, Copies::waited_for) == expected(); }),
            kOrders);
}

TEST_F(Matrices, AreUndefinedBeforeTheWait) {
  EXPECT_NE(product_by_mma(a_, b_, Copies::not_waited_for), expected());
}

TEST_F(Matrices, CopiesWithoutAWaitAreReported) {
  EXPECT_ABORTS(product_by_mma(a_, b_, Copies::never_waited_for),
                "a thread exits without waiting for [0-9]+ cp.async copies");
}

__global__ void load_misaligned() {
  __shared__ __align__(16) Half rows[8 * 8 + 8];
  uint32_t words[4];
  ldmatrix<false>(words, rows + threadIdx.x % 8 * 8 + 1);
}

TEST_F(Matrices, MustBeAligned) {
  const auto run = [] {
    launch(load_misaligned, 1, 32, 0, nullptr);
    cudaDeviceSynchronize();
  };
  EXPECT_ABORTS(run(), "ldmatrix at .*test_matrices.cu:.* of a row is not aligned to 16 bytes");
}

// C [16,8] = A [16,8] B [8,8], of words whose lower 13 bits are arbitrary.
__global__ void multiply_words(float* c, const float* a, const float* b) {
  const int lane = static_cast<int>(threadIdx.x), group = lane / 4, own = lane % 4;
  uint32_t left[4], right[2];
  for (int i = 0; i < 4; ++i)
    left[i] = __float_as_uint(a[(group + i % 2 * 8) * 8 + own + i / 2 * 4]) | 0x1555u;
  for (int i = 0; i < 2; ++i) right[i] = __float_as_uint(b[(own + i * 4) * 8 + group]) | 0xAAAu;
  float sums[4] = {};
  mma_m16n8k8(sums, left, right);
  for (int i = 0; i < 4; ++i) c[(group + i / 2 * 8) * 8 + own * 2 + i % 2] = sums[i];
}

TEST_F(Matrices, OfTf32AreMultiplied) {
  std::vector<float> left, right, product;
  for (int i = 0; i < 16 * 8; ++i) left.push_back(static_cast<float>(i * 7 % 11 - 5));
  for (int i = 0; i < 8 * 8; ++i) right.push_back(static_cast<float>(i * 5 % 13 - 6));
  for (int row = 0; row < 16; ++row)
    for (int column = 0; column < 8; ++column) {
      float sum = 0;
      for (int k = 0; k < 8; ++k) sum += left[row * 8 + k] * right[k * 8 + column];
      product.push_back(sum);
    }
  const DeviceArray<float> a(left), b(right), c(16 * 8);
  launch(multiply_words, 1, 32, 0, nullptr, c.data(), static_cast<const float*>(a.data()),
         static_cast<const float*>(b.data()));
  EXPECT_EQ(c.values(), product);
}

__global__ void round_words(float* x) { x[threadIdx.x] = __uint_as_float(to_tf32(x[threadIdx.x])); }

TEST_F(Matrices, AreRoundedToTf32) {
  const float step = 1.0f / 1024;  // the spacing of TF32 above 1
  const DeviceArray<float> x(std::vector<float>{1, 1 + step, 1 + 0.4f * step, 1 + 0.5f * step,
                                                -1 - 0.5f * step, 0, INFINITY, -INFINITY, NAN});
  launch(round_words, 1, 9, 0, nullptr, x.data());
  const std::vector<float> got = x.values(),
                           expected = {1, 1 + step, 1, 1 + step, -1 - step, 0, INFINITY, -INFINITY};
  EXPECT_EQ(std::vector<float>(got.begin(), got.end() - 1), expected);
  EXPECT_TRUE(std::isnan(got.back()));
}

}  // namespace
}  // namespace linea::cuda
