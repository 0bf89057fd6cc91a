// The archive of CIFAR-10, plain or gzip, with the checksums of its headers as they are and right
// ones.
#include "data/readers/cifar10.h"
#include "tests/fuzz/promise.h"
#include "tests/fuzz/repaired.h"
#include "tests/fuzz/targets.h"

namespace linea::fuzz {

int fuzz_cifar10(const uint8_t* data, size_t size) {
  static const MemoryFile file;
  constexpr size_t kInflation = 1032;  // of deflate, at most
  const std::string bytes = to_string(data, size);
  for (const std::string& form : {bytes, with_tar_checksums(bytes)}) {
    const std::filesystem::path path = file.holding(form);
    expect_value_or_error(size, [&] { read_cifar10(path, 8, size % 2 == 0 ? 3 : 1); },
                          {size_t{16} << 20, 8 * kInflation});
  }
  return 0;
}

}  // namespace linea::fuzz
