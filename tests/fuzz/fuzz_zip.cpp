// A zip archive of one file.
#include "data/readers/zip.h"
#include "tests/fuzz/promise.h"
#include "tests/fuzz/targets.h"

namespace linea::fuzz {

int fuzz_zip(const uint8_t* data, size_t size) {
  static const MemoryFile file;
  const std::filesystem::path path = file.holding(to_string(data, size));
  constexpr size_t kInflation = 1032;  // of deflate, at most
  expect_value_or_error(size, [&] { read_zip(path); }, {size_t{16} << 20, 4 * kInflation});
  return 0;
}

}  // namespace linea::fuzz
