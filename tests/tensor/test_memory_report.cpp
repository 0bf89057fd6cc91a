// What an error of memory says, the limits of containers, and allocations that fail where a test
// asks.
#include "tensor/memory_report.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/system.h"
#include "tensor/caching_allocator.h"
#include "tensor/tensor.h"
#include "tests/expect_error.h"
#include "tests/sanitized.h"

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

// Blocks kept for reuse are memory that the program has taken: they go before the limit is passed. A
// smaller tensor takes a part of one.
TEST(MemoryReport, CachedBlocksCountTowardTheLimit) {
  if (kSanitized) GTEST_SKIP() << "such builds keep no block";
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
  SystemMemory memory() const { return container_memory(folder_.string()); }
  size_t limit() const { return memory().total; }
  MemoryLimit machine(size_t taken = 0) const { return machine_memory(taken, folder_.string()); }

 private:
  std::filesystem::path folder_;
};

TEST_F(Container, Version2UsesTheMinimumOfItsGroups) {
  put("proc/self/cgroup", "0::/user/run\n");
  EXPECT_EQ(limit(), SIZE_MAX) << "no files";
  put("sys/fs/cgroup/user/run/memory.max", "max\n");
  EXPECT_EQ(limit(), SIZE_MAX);
  put("sys/fs/cgroup/user/memory.max", "5000\n");
  EXPECT_EQ(limit(), 5000u);
  put("sys/fs/cgroup/user/run/memory.max", "7000\n");
  EXPECT_EQ(limit(), 5000u);
  put("sys/fs/cgroup/memory.max", "3000\n");
  EXPECT_EQ(limit(), 3000u);
}

TEST_F(Container, Version2SeesItselfAsTheRoot) {
  put("proc/self/cgroup", "0::/\n");
  put("sys/fs/cgroup/memory.max", "1048576\n");
  EXPECT_EQ(limit(), kMiB);
}

TEST_F(Container, Version1HasAMemoryController) {
  put("proc/self/cgroup", "12:cpuset:/a\n7:cpu,memory:/docker/x\n0::/b\n");
  put("sys/fs/cgroup/memory/docker/x/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(limit(), 9223372036854771712u) << "no limit; more than any machine has";
  put("sys/fs/cgroup/memory/docker/memory.limit_in_bytes", "4096\n");
  EXPECT_EQ(limit(), 4096u);
}

// Files in the cache of pages are given up; the group with the least available counts, not the one
// with the lowest limit.
TEST_F(Container, SubtractsWhatIsInUse) {
  put("proc/self/cgroup", "0::/user/run\n");
  put("sys/fs/cgroup/user/memory.max", "9000\n");
  EXPECT_EQ(memory().available, 9000u) << "the use is not known";
  put("sys/fs/cgroup/user/memory.current", "7000\n");
  put("sys/fs/cgroup/user/memory.stat",
      "anon 4000\nactive_file 500\ninactive_file 1500\nshmem 900\n");
  EXPECT_EQ(memory().available, 4000u);
  put("sys/fs/cgroup/user/run/memory.max", "5000\n");
  put("sys/fs/cgroup/user/run/memory.current", "100\n");
  EXPECT_EQ(memory().total, 9000u);
  EXPECT_EQ(memory().available, 4000u);
  put("sys/fs/cgroup/user/run/memory.current", "6000\n");
  EXPECT_EQ(memory().total, 5000u);
  EXPECT_EQ(memory().available, 0u);

  put("proc/self/cgroup", "7:cpu,memory:/x\n");
  put("sys/fs/cgroup/memory/x/memory.limit_in_bytes", "9000\n");
  put("sys/fs/cgroup/memory/x/memory.usage_in_bytes", "7000\n");
  put("sys/fs/cgroup/memory/x/memory.stat", "inactive_file 1\ntotal_inactive_file 2000\n");
  EXPECT_EQ(memory().available, 4000u);
}

// The machine's memory is shared: what other programs have is not there for tensors, what the
// tensors of this one have is.
TEST_F(Container, AMachineHasWhatIsAvailable) {
  put("proc/meminfo", "MemTotal:       16777216 kB\nMemFree:  1 kB\nMemAvailable:    4194304 kB\n");
  EXPECT_EQ(machine().total, 16384 * kMiB);
  EXPECT_EQ(machine().bytes, (4096 - 128) * kMiB);
  EXPECT_EQ(machine(1000 * kMiB).bytes, (5096 - 128) * kMiB);
  EXPECT_EQ(machine(50000 * kMiB).bytes, (16384 - 128) * kMiB);
  EXPECT_EQ(machine().text(), "the machine has 16.00 GiB, 3.88 GiB of it for tensors");
  put("proc/self/cgroup", "0::/\n");
  put("sys/fs/cgroup/memory.max", "2147483648\n");
  EXPECT_EQ(machine().text(), "the container may have 2.00 GiB, 1.88 GiB of it for tensors");
  put("sys/fs/cgroup/memory.current", "1073741824\n");
  EXPECT_EQ(machine().bytes, (1024 - 128) * kMiB);
  EXPECT_EQ(machine(512 * kMiB).bytes, (1536 - 128) * kMiB);
}

TEST_F(Container, UnreadableHasNoLimit) {
  EXPECT_EQ(limit(), SIZE_MAX);
  put("proc/self/cgroup", "nonsense\n:\n0::/\n");
  put("sys/fs/cgroup/memory.max", "many\n");
  EXPECT_EQ(limit(), SIZE_MAX);
}

TEST(MemoryLimit, IsBelowTheMachinesMemory) {
  const MemoryLimit limit = machine_memory();
  EXPECT_GT(limit.total, 0u);
  EXPECT_LT(limit.bytes, limit.total);
  EXPECT_LT(limit.bytes, installed_memory().available + 512 * kMiB)
      << "other programs may free some between the two readings";
  EXPECT_EQ(cpu_allocator().limit().total, limit.total);
}

// What other programs leave, as they change it.
size_t left_over = 0;

TEST(MemoryLimit, IsReadAgain) {
  left_over = 100 * kMiB;
  CachingAllocator allocator(
      {std::malloc, std::free,
       [](size_t taken) {
         return MemoryLimit{taken + left_over, 1000 * kMiB, "the machine has"};
       },
       SIZE_MAX, 64 * kMiB});
  void* const first = allocator.allocate(60 * kMiB);
  left_over = 10 * kMiB;
  EXPECT_EQ(allocator.limit().bytes, 70 * kMiB);
  expect_error(ErrorKind::memory, {"the machine has 1000.0 MiB, 70.0 MiB of it for tensors"},
               [&] { allocator.allocate(16 * kMiB); });
  left_over = 100 * kMiB;
  void* const second = allocator.allocate(90 * kMiB);
  allocator.release(first, 60 * kMiB);
  allocator.release(second, 90 * kMiB);
  allocator.set_limit(kMiB);
  EXPECT_EQ(allocator.limit().bytes, kMiB) << "a limit that was set is not read";
  allocator.release_cache();
}

// Two spans are free, neither of which holds the request: they do not stay taken besides it.
TEST(MemoryLimit, FreeSpansGoBeforeALargeRequest) {
  if (kSanitized) GTEST_SKIP() << "such builds keep no block";
  CachingAllocator allocator({std::malloc, std::free,
                              [](size_t) {
                                return MemoryLimit{SIZE_MAX, SIZE_MAX, ""};
                              },
                              kMiB});
  void* const one = allocator.allocate(40 * kMiB);
  void* const two = allocator.allocate(48 * kMiB);
  allocator.release(one, 40 * kMiB);
  allocator.release(two, 48 * kMiB);
  void* const large = allocator.allocate(80 * kMiB);
  EXPECT_EQ(allocator.use().cached, 0u);
  allocator.release(large, 80 * kMiB);
  void* const small = allocator.allocate(20 * kMiB);
  void* const next = allocator.allocate(20 * kMiB);
  EXPECT_EQ(allocator.use().cached, 40 * kMiB) << "the rest of the span serves them";
  allocator.release(small, 20 * kMiB);
  allocator.release(next, 20 * kMiB);
  allocator.release_cache();
}

}  // namespace
}  // namespace linea
