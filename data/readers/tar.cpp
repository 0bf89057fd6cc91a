#include "data/readers/tar.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

#include "base/error.h"
#include "data/one_line.h"

namespace linea {
namespace {

constexpr int64_t kBlock = 512;
constexpr int64_t kMaxArchive = int64_t{1} << 31;  // bytes unpacked

// A field of the header.
struct Field {
  size_t position, length;
};
constexpr Field kName{0, 100}, kSize{124, 12}, kChecksum{148, 8}, kMagic{257, 5}, kPrefix{345, 155};
constexpr size_t kKind = 156;

using Header = std::array<char, static_cast<size_t>(kBlock)>;

// Up to the first zero byte.
std::string_view field_text(const Header& header, const Field& field) {
  const std::string_view whole(header.data() + field.position, field.length);
  return whole.substr(0, whole.find('\0'));
}

// Octal digits, padded with spaces; -1 for anything else.
int64_t field_number(const Header& header, const Field& field) {
  std::string_view digits = field_text(header, field);
  while (digits.starts_with(' ')) digits.remove_prefix(1);
  while (digits.ends_with(' ')) digits.remove_suffix(1);
  if (digits.empty()) return -1;
  int64_t number = 0;  // twelve digits at most: it cannot overflow
  for (const char digit : digits) {
    if (digit < '0' || digit > '7') return -1;
    number = number * 8 + (digit - '0');
  }
  return number;
}

// The sum of the header's bytes, with the checksum field counted as spaces.
int64_t checksum(const Header& header) {
  int64_t sum = 0;
  for (size_t i = 0; i < header.size(); ++i) {
    const bool own = i >= kChecksum.position && i < kChecksum.position + kChecksum.length;
    sum += own ? ' ' : static_cast<unsigned char>(header[i]);
  }
  return sum;
}

}  // namespace

TarReader::TarReader(const std::filesystem::path& path) : file_(path) {}

void TarReader::skip(int64_t bytes) {
  std::string buffer(static_cast<size_t>(std::min(bytes, kBufferBytes)), '\0');
  while (bytes > 0) {
    const int64_t got = file_.read(buffer.data(), std::min(bytes, kBufferBytes));
    if (got == 0)
      fail(ErrorKind::input, "{}: ends inside {}; download it again", file_.name(),
           one_line(entry_name_));
    bytes -= got;
  }
}

// False at the end: a block of zeros, or the end of the file.
bool TarReader::read_header() {
  Header header{};
  const int64_t got = file_.read(header.data(), kBlock);
  if (got == 0 || (got == kBlock && std::count(header.begin(), header.end(), '\0') == kBlock))
    return false;
  if (got < kBlock || field_number(header, kChecksum) != checksum(header))
    fail(ErrorKind::input,
         "{}: has no valid tar header at byte {}; check that it is a complete tar archive",
         file_.name(), unpacked_);
  entry_name_ = field_text(header, kName);
  const bool is_ustar = field_text(header, kMagic).substr(0, kMagic.length) == "ustar";
  const std::string_view prefix = is_ustar ? field_text(header, kPrefix) : "";
  // The GNU header, "ustar  ", stores times where ustar has the prefix.
  if (!prefix.empty() && header[kMagic.position + kMagic.length] == '\0')
    entry_name_ = std::string(prefix) + "/" + entry_name_;
  const char kind = header[kKind];
  is_regular_file_ = kind == '0' || kind == '\0' || kind == '7';
  const bool is_empty = kind >= '1' && kind <= '6';  // links, devices, folders
  entry_bytes_ = is_empty ? 0 : field_number(header, kSize);
  if (entry_bytes_ < 0 || entry_bytes_ > kMaxArchive - unpacked_)
    fail(ErrorKind::input, "{}: {} has the impossible size '{}' (octal; at most {} bytes in all)",
         file_.name(), one_line(entry_name_), one_line(field_text(header, kSize)), kMaxArchive);
  unread_ = (entry_bytes_ + kBlock - 1) / kBlock * kBlock;
  unpacked_ += kBlock + unread_;
  return true;
}

bool TarReader::next() {
  do {
    skip(unread_);
    unread_ = 0;
    if (!read_header()) {
      // Padding follows; reading to its end verifies gzip's checksum.
      std::string buffer(static_cast<size_t>(kBufferBytes), '\0');
      for (int64_t left = kMaxArchive; left > 0; left -= kBufferBytes)
        if (file_.read(buffer.data(), kBufferBytes) < kBufferBytes) return false;
      fail(ErrorKind::input, "{}: has more than {} bytes after the end of the archive",
           file_.name(), kMaxArchive);
    }
  } while (!is_regular_file_);
  return true;
}

std::string TarReader::read_entry(int64_t max_bytes) {
  require(unread_ >= entry_bytes_, "{}: {} is read twice", file_.name(), one_line(entry_name_));
  if (entry_bytes_ > max_bytes)
    fail(ErrorKind::input, "{}: {} has {} bytes, at most {} can be read", file_.name(),
         one_line(entry_name_), entry_bytes_, max_bytes);
  std::string bytes;
  while (static_cast<int64_t>(bytes.size()) < entry_bytes_) {
    const size_t before = bytes.size();
    const int64_t count = std::min(kBufferBytes, entry_bytes_ - static_cast<int64_t>(before));
    bytes.resize(before + static_cast<size_t>(count));
    if (file_.read(bytes.data() + before, count) < count)
      fail(ErrorKind::input, "{}: ends inside {}; download it again", file_.name(),
           one_line(entry_name_));
  }
  unread_ -= entry_bytes_;
  return bytes;
}

}  // namespace linea
