#include "data/readers/idx.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "data/readers/gzip.h"

namespace linea {
namespace {

constexpr int64_t kMaxPayload = int64_t{1} << 30;

int64_t read_payload_size(GzipReader& reader, int rank, std::vector<int64_t>& sizes) {
  std::array<uint8_t, 4> word{};
  if (reader.read(word.data(), 4) < 4)
    fail(ErrorKind::input, "{}: has {} bytes, too few for an IDX header", reader.name(),
         reader.file_bytes());
  if (word[0] != 0 || word[1] != 0 || word[2] != 8 || word[3] != rank)
    fail(ErrorKind::input,
         "{}: starts with {:02x}{:02x}{:02x}{:02x}, an IDX file of bytes of rank {} starts with "
         "000008{:02x}; check that it is the right file",
         reader.name(), word[0], word[1], word[2], word[3], rank, rank);
  int64_t payload = 1;
  for (int axis = 0; axis < rank; ++axis) {
    if (reader.read(word.data(), 4) < 4)
      fail(ErrorKind::input, "{}: ends inside its IDX header", reader.name());
    const int64_t size = int64_t{word[0]} << 24 | word[1] << 16 | word[2] << 8 | word[3];
    if (size == 0 || size > kMaxPayload / payload)
      fail(ErrorKind::input, "{}: size {} of axis {} is impossible (1 to {} bytes in all)",
           reader.name(), size, axis, kMaxPayload);
    payload *= size;
    sizes.push_back(size);
  }
  return payload;
}

}  // namespace

IdxFile read_idx(const std::filesystem::path& path, int rank) {
  GzipReader reader(path);
  IdxFile idx;
  const int64_t payload = read_payload_size(reader, rank, idx.sizes);
  const int64_t header = 4 + 4 * int64_t{rank};
  const bool possible = reader.compressed() ? payload / kMaxExpansion <= reader.file_bytes()
                                            : header + payload == reader.file_bytes();
  if (!possible)
    fail(ErrorKind::input, "{}: its header declares {} bytes, but the {} has {}; download it again",
         reader.name(), header + payload, reader.compressed() ? "gzip file" : "file",
         reader.file_bytes());
  int64_t count = 0;
  while (count < payload) {
    const int64_t requested = std::min(kBufferBytes, payload - count);
    idx.bytes.resize(static_cast<size_t>(count + requested));
    const int64_t got = reader.read(idx.bytes.data() + count, requested);
    count += got;
    if (got < requested)
      fail(ErrorKind::input, "{}: ends after {} bytes, its header declares {}; download it again",
           reader.name(), header + count, header + payload);
  }
  // Reading past the end also verifies gzip's checksum.
  uint8_t extra = 0;
  if (reader.read(&extra, 1) != 0)
    fail(ErrorKind::input, "{}: has more than the {} bytes that its header promises", reader.name(),
         header + payload);
  return idx;
}

}  // namespace linea
