// The account of device memory: exact, reused, and limited where asked.
#include "tensor/caching_allocator.h"

#include <gtest/gtest.h>

#include "tensor/tensor.h"
#include "tests/sanitized.h"

namespace linea {
namespace {

size_t held() { return cpu_allocator().use().held; }

TEST(Memory, HeldAndPeakAreExact) {
  const size_t before = held();
  cpu_allocator().reset_peak();
  EXPECT_EQ(cpu_allocator().use().peak, before);
  {
    const Tensor a({1024}, DType::f32);  // 4096 and 2048 bytes are sizes of their own classes
    EXPECT_EQ(held(), before + 4096);
    {
      const Tensor b({256}, DType::f64);
      EXPECT_EQ(held(), before + 4096 + 2048);
    }
    EXPECT_EQ(held(), before + 4096);
    const Tensor view = a.reshape({2, 512}).rows(1, 1);
    EXPECT_EQ(held(), before + 4096);
  }
  EXPECT_EQ(held(), before);
  EXPECT_EQ(cpu_allocator().use().peak, before + 4096 + 2048);
  cpu_allocator().reset_peak();
  EXPECT_EQ(cpu_allocator().use().peak, before);
}

TEST(Memory, ViewsKeepTheirStorageAlive) {
  const size_t before = held();
  Tensor view;
  {
    const Tensor whole = Tensor::full({1024}, DType::f32, 3.0);
    view = whole.rows(1000, 2);
  }
  EXPECT_EQ(held(), before + 4096);
  EXPECT_EQ(view.to_doubles(), (std::vector<double>{3, 3}));
  view = Tensor();
  EXPECT_EQ(held(), before);
}

// At least what was asked for, at most an eighth more (and 64 bytes), aligned, in every size.
TEST(Memory, SizeClassesWasteLittle) {
  Allocator& allocator = cpu_allocator();
  for (size_t bytes = 0; bytes < 100000; bytes += bytes < 5000 ? 1 : 977) {
    const size_t before = held();
    void* block = allocator.allocate(bytes);
    const size_t taken = held() - before;
    EXPECT_GE(taken, bytes);
    EXPECT_LE(taken, bytes + bytes / 8 + 64) << bytes;
    EXPECT_EQ(reinterpret_cast<uintptr_t>(block) % 64, 0u);
    allocator.release(block, bytes);
    ASSERT_EQ(held(), before) << bytes;
  }
  cpu_allocator().release_cache();
}

TEST(Memory, ReleasedBlocksAreUsedAgain) {
  if (kSanitized) GTEST_SKIP() << "such builds keep no block";
  cpu_allocator().release_cache();
  EXPECT_EQ(cpu_allocator().use().cached, 0u);
  const void* first = nullptr;
  {
    const Tensor x({1 << 20}, DType::f32);
    first = x.address();
  }
  EXPECT_EQ(cpu_allocator().use().cached, size_t{4} << 20);
  const Tensor again({1 << 20}, DType::f32);
  EXPECT_EQ(again.address(), first);
  EXPECT_EQ(cpu_allocator().use().cached, 0u);
}

TEST(Memory, ExceedingTheLimitSuggestsARemedy) {
  const Tensor kept = Tensor::zeros({1 << 18}, DType::f32);
  cpu_allocator().set_limit(held() + (size_t{1} << 20));
  const Tensor fits({1 << 18}, DType::f32);
  try {
    const Tensor more({1 << 10}, DType::f32);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::memory);
    EXPECT_EQ(error.exit_code(), 5);
    EXPECT_NE(std::string(error.what()).find("`batch`"), std::string::npos) << error.what();
  }
  cpu_allocator().set_limit(0);
  const Tensor now_fits({1 << 20}, DType::f32);
}

TEST(Memory, ImpossibleSizesAreAnError) {
  if (kSanitized) GTEST_SKIP() << "the address sanitizer stops the program instead";
  const size_t before = held();
  try {
    const Tensor huge({int64_t{1} << 50}, DType::f64);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::memory);
  }
  EXPECT_EQ(held(), before);
}

}  // namespace
}  // namespace linea
