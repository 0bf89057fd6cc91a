// A tar archive, plain or gzip: every entry of it, with the checksums that it has and with right
// ones.
#include "data/readers/tar.h"
#include "tests/fuzz/promise.h"
#include "tests/fuzz/repaired.h"
#include "tests/fuzz/targets.h"

namespace linea::fuzz {

int fuzz_tar(const uint8_t* data, size_t size) {
  static const MemoryFile file;
  constexpr size_t kInflation = 1032;  // of deflate, at most
  constexpr int64_t kMaxBytes = int64_t{1} << 20;
  const std::string bytes = to_string(data, size);
  for (const std::string& form : {bytes, with_tar_checksums(bytes)}) {
    const std::filesystem::path path = file.holding(form);
    const auto read = [&] {
      TarReader reader(path);
      while (reader.next())
        if (reader.entry_bytes() % 2 == 0) reader.read_entry(kMaxBytes);  // others are passed over
    };
    // What passes an entry over takes a piece of 1 MiB, for headers of 512 bytes each.
    expect_value_or_error(size, read, {size_t{16} << 20, 4 * kInflation});
  }
  return 0;
}

}  // namespace linea::fuzz
