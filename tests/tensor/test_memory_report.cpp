// What an error of memory says, the limits of containers, and allocations that fail where a test
// asks.
#include "tensor/memory_report.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>

#include "tensor/caching_allocator.h"
#include "tensor/tensor.h"
#include "tests/expect_error.h"

namespace linea {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

// Tensors may hold this many bytes more while it lives.
struct Limit {
  explicit Limit(size_t more) { cpu_allocator().set_limit(cpu_allocator().use().held + more); }
  ~Limit() { cpu_allocator().set_limit(0); }
};

TEST(MemoryReport, AttributesMemoryToOpsAndScopes) {
  const Tensor weights({1 << 19}, DType::f32), gradients({1 << 18}, DType::f32),
      rest({3 << 18}, DType::f32);
  const MemoryBreakdown breakdown([&] {
    return MemoryParts{0, weights.bytes(), gradients.bytes(), 0};
  });
  const Limit limit(kMiB);
  const auto too_much = [] { const Tensor x({1 << 20}, DType::f32); };
  expect_error(
      ErrorKind::memory,
      {"4.0 MiB asked for activations and workspace", "parameters 2.0 MiB", "gradients 1.0 MiB",
       "optimizer 0.0 MiB", "activations and workspace 3.0 MiB", "the limit is", "lower `batch`"},
      too_much);
  const MemoryScope scope(MemoryPart::optimizer);
  expect_error(ErrorKind::memory,
               {"4.0 MiB asked for optimizer", "optimizer 3.0 MiB",
                "activations and workspace 0.0 MiB", "lower `dim`"},
               too_much);
}

TEST(MemoryReport, ScopesAndBreakdownsEnd) {
  EXPECT_EQ(current_memory_part(), MemoryPart::activations);
  {
    const MemoryScope outer(MemoryPart::parameters);
    { const MemoryScope inner(MemoryPart::gradients); }
    EXPECT_EQ(current_memory_part(), MemoryPart::parameters);
  }
  EXPECT_EQ(current_memory_part(), MemoryPart::activations);
  {
    const MemoryBreakdown outer([] { return MemoryParts{0, 1, 2, 3}; });
    {
      const MemoryBreakdown inner([] { return MemoryParts{0, 4, 5, 6}; });
    }
    const MemoryParts parts = MemoryBreakdown::take(10);
    EXPECT_EQ(parts.parameters, 1u);
    EXPECT_EQ(parts.activations, 4u);
    EXPECT_EQ(MemoryBreakdown::take(2).activations, 0u)
        << "less is held than was counted: rounding";
  }
  EXPECT_EQ(MemoryBreakdown::take(10).activations, 10u);
}

TEST(MemoryReport, InjectsAllocationFailures) {
  const size_t before = cpu_allocator().use().held;
  cpu_allocator().fail_at(3);
  const auto tensor = [] { return Tensor({16}, DType::f32); };
  tensor();
  tensor();
  expect_error(ErrorKind::memory, {"out of memory"}, tensor);
  tensor();
  cpu_allocator().fail_at(0);
  for (int i = 0; i < 5; ++i) tensor();
  EXPECT_EQ(cpu_allocator().use().held, before);
}

#ifndef LINEA_NAN_FILL  // where nothing is kept
// Blocks kept for reuse are memory that the program has taken: they go before the limit is passed. A
// smaller tensor takes a part of one.
TEST(MemoryReport, CachedBlocksCountTowardTheLimit) {
  cpu_allocator().release_cache();
  const Limit limit(4 * kMiB);
  { const Tensor x({1 << 19}, DType::f32); }
  EXPECT_EQ(cpu_allocator().use().cached, 2 * kMiB);
  { const Tensor x({3 << 18}, DType::f32); }  // not both
  EXPECT_EQ(cpu_allocator().use().cached, 3 * kMiB);
  const Tensor y({1 << 18}, DType::f32);
  EXPECT_EQ(cpu_allocator().use().cached, 2 * kMiB);
  expect_error(ErrorKind::memory, {"out of memory"}, [] { Tensor({3 << 18}, DType::f32); });
  { const Tensor z({1 << 19}, DType::f32); }
  EXPECT_EQ(cpu_allocator().use().cached, 2 * kMiB);
}
#endif

class Container : public testing::Test {
 protected:
  Container()
      : folder_(std::filesystem::temp_directory_path() / fmt::format("linea-groups-{}", getpid())) {
    std::filesystem::remove_all(folder_);
  }
  ~Container() override { std::filesystem::remove_all(folder_); }

  void put(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name) << text;
  }
  size_t limit() const {
    return container_memory((folder_ / "self").string(), (folder_ / "mount").string());
  }

 private:
  std::filesystem::path folder_;
};

TEST_F(Container, Version2UsesTheMinimumOfItsGroups) {
  put("self", "0::/user/run\n");
  EXPECT_EQ(limit(), SIZE_MAX) << "no files";
  put("mount/user/run/memory.max", "max\n");
  EXPECT_EQ(limit(), SIZE_MAX);
  put("mount/user/memory.max", "5000\n");
  EXPECT_EQ(limit(), 5000u);
  put("mount/user/run/memory.max", "7000\n");
  EXPECT_EQ(limit(), 5000u);
  put("mount/memory.max", "3000\n");
  EXPECT_EQ(limit(), 3000u);
}

TEST_F(Container, Version2SeesItselfAsTheRoot) {
  put("self", "0::/\n");
  put("mount/memory.max", "1048576\n");
  EXPECT_EQ(limit(), kMiB);
}

TEST_F(Container, Version1HasAMemoryController) {
  put("self", "12:cpuset:/a\n7:cpu,memory:/docker/x\n0::/b\n");
  put("mount/memory/docker/x/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(limit(), 9223372036854771712u) << "no limit; more than any machine has";
  put("mount/memory/docker/memory.limit_in_bytes", "4096\n");
  EXPECT_EQ(limit(), 4096u);
}

TEST_F(Container, UnreadableHasNoLimit) {
  EXPECT_EQ(limit(), SIZE_MAX);
  put("self", "nonsense\n:\n0::/\n");
  put("mount/memory.max", "many\n");
  EXPECT_EQ(limit(), SIZE_MAX);
}

TEST(MemoryLimit, IsBelowTheMachinesMemory) {
  const MemoryLimit limit = machine_memory();
  EXPECT_GT(limit.total, 0u);
  EXPECT_LT(limit.bytes, limit.total);
  EXPECT_GE(limit.bytes, limit.total / 8 * 7);
  EXPECT_EQ(cpu_allocator().limit().bytes, limit.bytes);
}

}  // namespace
}  // namespace linea
