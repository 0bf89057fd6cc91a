#include "data/readers/gzip.h"

#include <zlib.h>

#include "base/error.h"

namespace linea {

// zlib's gzFile passes plain files through.
GzipReader::GzipReader(const std::filesystem::path& path)
    : name_(path.string()),
      file_bytes_(plain_file_size(path)),
      file_(gzopen(path.c_str(), "rb"), gzclose) {
  if (!file_) fail(ErrorKind::input, "{}: cannot be opened for reading", name_);
}

bool GzipReader::compressed() { return gzdirect(file_.get()) == 0; }

int64_t GzipReader::read(void* target, int64_t count) {
  const int got = gzread(file_.get(), target, static_cast<unsigned>(count));
  int code = Z_OK;
  const char* reason = gzerror(file_.get(), &code);
  if (code == Z_BUF_ERROR)
    fail(ErrorKind::input, "{}: its gzip data is truncated ({} bytes); download it again", name_,
         file_bytes_);
  if (got < 0)
    fail(ErrorKind::input, "{}: its gzip data is damaged ({}); download it again", name_, reason);
  return got;
}

std::string read_gzip(const std::filesystem::path& path, int64_t max_bytes) {
  constexpr int64_t kPiece = int64_t{1} << 20;
  GzipReader reader(path);
  std::string bytes, piece(kPiece, '\0');
  for (int64_t got = kPiece; got == kPiece;) {
    got = reader.read(piece.data(), kPiece);
    bytes.append(piece, 0, static_cast<size_t>(got));
    if (static_cast<int64_t>(bytes.size()) > max_bytes)
      fail(ErrorKind::input, "{}: unpacks to more than {} bytes; use a smaller file", reader.name(),
           max_bytes);
  }
  if (!reader.compressed())
    fail(ErrorKind::input, "{}: is not gzip; rename it if it is a plain file", reader.name());
  return bytes;
}

}  // namespace linea
