// Tensor cores: wmma, mma.sync with ldmatrix, and tiles copied by cp.async.
#include <cuda_pipeline_primitives.h>
#include <mma.h>

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

// C [kM,kN] = A [kM,kK] B [kK,kN]; one warp per tile.
template <typename LayoutB>
__global__ void multiply_by_wmma(float* c, const Half* a, const Half* b) {
  namespace wmma = nvcuda::wmma;
  constexpr bool kRowMajor = std::is_same_v<LayoutB, wmma::row_major>;
  const int row = static_cast<int>(blockIdx.y) * 16, column = static_cast<int>(blockIdx.x) * 16;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> sums;
  wmma::fill_fragment(sums, 0.25f);
  for (int k = 0; k < kK; k += 16) {
    wmma::fragment<wmma::matrix_a, 16, 16, 16, Half, wmma::row_major> left;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, Half, LayoutB> right;
    wmma::load_matrix_sync(left, a + row * kK + k, kK);
    wmma::load_matrix_sync(right, kRowMajor ? b + k * kN + column : b + column * kK + k,
                           kRowMajor ? kN : kK);
    wmma::mma_sync(sums, left, right, sums);
  }
  for (int i = 0; i < sums.num_elements; ++i) sums.x[i] *= 2.0f;
  wmma::store_matrix_sync(c + row * kN + column, sums, kN, wmma::mem_row_major);
}

// The product by 16 x 8 tiles of C; cp.async copies A and B to shared memory.
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
    uint32_t fragment_a[4], fragment_b[2];
    ldmatrix<false>(fragment_a, left + lane % 16 * 24 + lane / 16 * 8);
    ldmatrix<true>(fragment_b, right + lane % 16 * 8);
    mma_m16n8k16(sums, fragment_a, fragment_b);
    __syncwarp();
  }
  if (copies != Copies::never_waited_for) __pipeline_wait_prior(0);
  for (int i = 0; i < 4; ++i)
    c[(row + lane / 4 + i / 2 * 8) * kN + column + lane % 4 * 2 + i % 2] = sums[i];
}

class Matrices : public testing::Test {
 protected:
  // (A B + bias) factor
  std::vector<float> expected(float bias, float factor) const {
    std::vector<float> result;
    for (int row = 0; row < kM; ++row)
      for (int column = 0; column < kN; ++column) {
        float sum = bias;
        for (int k = 0; k < kK; ++k)
          sum += __bfloat162float(a_[static_cast<size_t>(row * kK + k)]) *
                 __bfloat162float(b_[static_cast<size_t>(k * kN + column)]);
        result.push_back(sum * factor);
      }
    return result;
  }

  std::vector<Half> a_ = small_numbers(kM * kK, 11), b_ = small_numbers(kK * kN, 13);
};

TEST_F(Matrices, AreMultipliedByWmma) {
  const DeviceArray<Half> a(a_), b(b_);
  const DeviceArray<float> c(kM * kN);
  const auto right = [&] {
    launch(multiply_by_wmma<nvcuda::wmma::row_major>, dim3(kN / 16, kM / 16), 32, 0, nullptr,
           c.data(), a.data(), b.data());
    return c.values() == expected(0.25f, 2);
  };
  EXPECT_EQ(count_orders(right), kOrders);
}

TEST_F(Matrices, MayBeColumnMajor) {
  std::vector<Half> transposed;
  for (int column = 0; column < kN; ++column)
    for (int k = 0; k < kK; ++k) transposed.push_back(b_[static_cast<size_t>(k * kN + column)]);
  const DeviceArray<Half> a(a_), b(transposed);
  const DeviceArray<float> c(kM * kN);
  launch(multiply_by_wmma<nvcuda::wmma::col_major>, dim3(kN / 16, kM / 16), 32, 0, nullptr,
         c.data(), a.data(), b.data());
  EXPECT_EQ(c.values(), expected(0.25f, 2));
}

std::vector<float> product_by_mma(const std::vector<Half>& left, const std::vector<Half>& right,
                                  Copies copies) {
  const DeviceArray<Half> a(left), b(right);
  const DeviceArray<float> c(kM * kN);
  launch(multiply_by_mma, dim3(kN / 8, kM / 16), 32, 0, nullptr, c.data(), a.data(), b.data(),
         copies);
  return c.values();
}

TEST_F(Matrices, AreMultipliedByMma) {
  EXPECT_EQ(
      count_orders([&] { return product_by_mma(a_, b_, Copies::waited_for) == expected(0, 1); }),
      kOrders);
}

TEST_F(Matrices, AreUndefinedBeforeTheWait) {
  EXPECT_NE(product_by_mma(a_, b_, Copies::not_waited_for), expected(0, 1));
}

TEST_F(Matrices, CopiesWithoutAWaitAreReported) {
  EXPECT_ABORTS(product_by_mma(a_, b_, Copies::never_waited_for),
                "a thread exits without waiting for [0-9]+ cp.async copies");
}

__global__ void load_misaligned(const Half* a) {
  nvcuda::wmma::fragment<nvcuda::wmma::matrix_a, 16, 16, 16, Half, nvcuda::wmma::row_major> tile;
  nvcuda::wmma::load_matrix_sync(tile, a + 1, 16);
}

TEST_F(Matrices, MustBeAligned) {
  const auto run = [&] {
    const DeviceArray<Half> a(a_);
    launch(load_misaligned, 1, 32, 0, nullptr, a.data());
    cudaDeviceSynchronize();
  };
  EXPECT_ABORTS(run(),
                "wmma::load_matrix_sync at .*test_matrices.cu:.* must be aligned to 32 bytes");
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
