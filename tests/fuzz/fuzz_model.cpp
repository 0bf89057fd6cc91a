// A model's file, whose metadata hold settings and vocabulary: eval and sample read it.
#include "tests/fuzz/promise.h"
#include "tests/fuzz/targets.h"
#include "train/checkpoint.h"

namespace linea::fuzz {

int fuzz_model(const uint8_t* data, size_t size) {
  static const MemoryFile file;
  const std::filesystem::path path = file.holding(text_of(data, size));
  expect_value_or_error(size, [&] { load_model(path); });
  return 0;
}

}  // namespace linea::fuzz
