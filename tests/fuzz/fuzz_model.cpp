// A model's file, whose metadata hold settings and vocabulary: eval and sample read it.
#include "tensor/caching_allocator.h"
#include "tests/fuzz/promise.h"
#include "tests/fuzz/targets.h"
#include "train/run/checkpoint.h"

namespace linea::fuzz {

int fuzz_model(const uint8_t* data, size_t size) {
  static const MemoryFile file;
  const std::filesystem::path path = file.holding(to_string(data, size));
  constexpr size_t kMaxBytes = size_t{64}
                               << 20;  // sizes in the settings must not take more than the file has
  cpu_allocator().set_limit(cpu_allocator().use().held + kMaxBytes);
  expect_value_or_error(size, [&] { load_model(path); });
  cpu_allocator().set_limit(0);
  return 0;
}

}  // namespace linea::fuzz
