// The IDX format of the MNIST files, plain or gzip: two zero bytes, 0x08 (unsigned bytes), the
// rank, `rank` big-endian 32-bit sizes, then the bytes, row-major. Every size is checked against
// the file before memory is allocated for it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

namespace linea {

struct IdxFile {
  std::vector<int64_t> sizes;
  std::vector<uint8_t> bytes;  // as many as the product of the sizes
};

IdxFile read_idx(const std::filesystem::path& path, int rank);

}  // namespace linea
