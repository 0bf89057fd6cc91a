// An IDX file, plain or gzip; the size chooses the rank that is asked for.
#include "data/readers/idx.h"
#include "tests/fuzz/promise.h"
#include "tests/fuzz/targets.h"

namespace linea::fuzz {

int fuzz_idx(const uint8_t* data, size_t size) {
  static const MemoryFile file;
  const std::filesystem::path path = file.holding(to_string(data, size));
  constexpr size_t kInflation = 1032;  // of deflate, at most; the vector grows by doubling
  expect_value_or_error(size, [&] { read_idx(path, size % 2 == 0 ? 3 : 1); },
                        {size_t{16} << 20, 4 * kInflation});
  return 0;
}

}  // namespace linea::fuzz
