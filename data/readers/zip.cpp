#include "data/readers/zip.h"

#include <zlib.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "data/one_line.h"
#include "tensor/error.h"

namespace linea {
namespace {

constexpr int64_t kPieceBytes = int64_t{1} << 20;
constexpr int64_t kMaxInflation = 1032;  // deflate cannot do better: 258 bytes from two bits
constexpr int kRawDeflate = -15;         // zlib's name for a window of 32 KiB without a frame
constexpr uint64_t kStored = 0, kDeflated = 8, kEncrypted = 1;

// Lengths of what is fixed in a record, with the four bytes that it begins with.
constexpr std::string_view kLocalMark("PK\3\4", 4), kEntryMark("PK\1\2", 4), kEndMark("PK\5\6", 4);
constexpr size_t kLocalBytes = 30, kEntryBytes = 46, kEndBytes = 22, kMaxComment = 65535;

struct Entry {
  std::string name;
  uint64_t flags, method, checksum, packed, unpacked,
      local;  // local: where the local header starts
};

class Archive {
 public:
  Archive(std::string bytes, std::string name) : bytes_(std::move(bytes)), name_(std::move(name)) {}

  // The list of entries, the "central directory", lies between the files and the record at the very
  // end.
  std::vector<Entry> entries() {
    const size_t end = find_end();
    const uint64_t count = number(end + 10, 2), size = number(end + 12, 4);
    list_start_ = number(end + 16, 4);
    if (count == 0xFFFF || list_start_ == 0xFFFFFFFF)
      fail(ErrorKind::input,
           "{}: is a zip64 archive, which is not read; unpack it and name the file", name_);
    if (number(end + 4, 4) != 0 || number(end + 8, 2) != count || list_start_ + size != end)
      damaged(fmt::format("its list of {} bytes at {} does not end at byte {}", size, list_start_,
                          end));
    std::vector<Entry> found;
    size_t position = list_start_;
    for (uint64_t i = 0; i < count; ++i) {
      if (end - position < kEntryBytes || !mark_at(position, kEntryMark))
        damaged(fmt::format("entry {} of {} is not where it should be", i + 1, count));
      const uint64_t name_length = number(position + 28, 2);
      const uint64_t length =
          kEntryBytes + name_length + number(position + 30, 2) + number(position + 32, 2);
      if (length > end - position) damaged(fmt::format("entry {} of {} is cut", i + 1, count));
      found.push_back({bytes_.substr(position + kEntryBytes, name_length), number(position + 8, 2),
                       number(position + 10, 2), number(position + 16, 4), number(position + 20, 4),
                       number(position + 24, 4), number(position + 42, 4)});
      position += length;
    }
    if (position != end)
      damaged(fmt::format("{} bytes behind its list of entries", end - position));
    return found;
  }

  // The packed bytes of an entry; they must lie before the list of entries.
  std::string_view packed_bytes(const Entry& entry) const {
    if (entry.local > list_start_ || list_start_ - entry.local < kLocalBytes ||
        !mark_at(entry.local, kLocalMark))
      damaged(fmt::format("{} does not start at byte {}", entry.name, entry.local));
    const uint64_t name_length = number(entry.local + 26, 2);
    const uint64_t header = kLocalBytes + name_length + number(entry.local + 28, 2);
    const uint64_t room = list_start_ - entry.local;
    if (header > room || entry.packed > room - header)
      damaged(
          fmt::format("{} of {} bytes reaches into the list of entries", entry.name, entry.packed));
    if (bytes_.compare(entry.local + kLocalBytes, name_length, entry.name) != 0 ||
        number(entry.local + 8, 2) != entry.method)
      damaged(fmt::format("{} has another name or method in front of its bytes", entry.name));
    return std::string_view(bytes_).substr(entry.local + header, entry.packed);
  }

  [[noreturn]] void damaged(const std::string& reason) const {
    fail(ErrorKind::input, "{}: is no sound zip archive: {}; download it again", name_,
         one_line(reason));
  }

 private:
  size_t find_end() const {
    for (size_t comment = 0; comment <= kMaxComment && comment + kEndBytes <= bytes_.size();
         ++comment) {
      const size_t position = bytes_.size() - kEndBytes - comment;
      if (mark_at(position, kEndMark) && number(position + 20, 2) == comment) return position;
    }
    damaged("the record at its end is missing");
  }

  bool mark_at(size_t position, std::string_view mark) const {
    return std::string_view(bytes_).substr(position, mark.size()) == mark;
  }

  // Little-endian.
  uint64_t number(size_t position, size_t length) const {
    uint64_t value = 0;
    for (size_t i = length; i-- > 0;)
      value = value << 8 | static_cast<unsigned char>(bytes_[position + i]);
    return value;
  }

  std::string bytes_, name_;
  uint64_t list_start_ = 0;
};

// Memory is taken as bytes appear, up to one more than the archive promises.
std::string inflate(const Archive& archive, const Entry& entry, std::string_view packed) {
  z_stream stream{};
  if (inflateInit2(&stream, kRawDeflate) != Z_OK)
    fail(ErrorKind::memory, "no memory to unpack {}", one_line(entry.name));
  stream.next_in =
      reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));  // zlib writes nothing there
  stream.avail_in = static_cast<uInt>(packed.size());
  std::string bytes;
  int code = Z_OK;
  while (code == Z_OK && bytes.size() <= entry.unpacked) {
    const size_t before = bytes.size();
    bytes.resize(static_cast<size_t>(std::min<uint64_t>(entry.unpacked + 1, before + kPieceBytes)));
    stream.next_out = reinterpret_cast<Bytef*>(bytes.data() + before);
    stream.avail_out = static_cast<uInt>(bytes.size() - before);
    code = ::inflate(&stream, Z_NO_FLUSH);
    bytes.resize(bytes.size() - stream.avail_out);
  }
  const bool whole = code == Z_STREAM_END && stream.avail_in == 0 && bytes.size() == entry.unpacked;
  inflateEnd(&stream);
  if (!whole)
    archive.damaged(fmt::format("{} does not unpack from {} to {} bytes", entry.name, entry.packed,
                                entry.unpacked));
  return bytes;
}

const Entry& only_file(const std::vector<Entry>& entries, const std::string& name) {
  const Entry* file = nullptr;
  int64_t files = 0;
  for (const Entry& entry : entries) {
    if (entry.name.ends_with('/')) continue;  // a folder
    ++files;
    file = &entry;
  }
  if (files != 1)
    fail(ErrorKind::input,
         "{}: holds {} files, only an archive of one file can be read; unpack it and name the file",
         name, files);
  return *file;
}

}  // namespace

std::string read_zip(const std::filesystem::path& path, int64_t max_bytes) {
  const std::string name = path.string();
  Archive archive(read_file(path, max_bytes), name);
  const std::vector<Entry> entries = archive.entries();
  const Entry& entry = only_file(entries, name);
  if ((entry.flags & kEncrypted) != 0 || (entry.method != kStored && entry.method != kDeflated))
    fail(ErrorKind::input, "{}: {} is {}, which is not read; unpack it and name the file", name,
         one_line(entry.name),
         (entry.flags & kEncrypted) != 0 ? "encrypted"
                                         : fmt::format("packed by method {}", entry.method));
  if (entry.unpacked > static_cast<uint64_t>(max_bytes))
    fail(ErrorKind::input, "{}: {} unpacks to {} bytes, at most {} can be read; use a smaller file",
         name, one_line(entry.name), entry.unpacked, max_bytes);
  const std::string_view packed = archive.packed_bytes(entry);
  if (entry.method == kStored ? entry.packed != entry.unpacked
                              : entry.unpacked / kMaxInflation > entry.packed)
    archive.damaged(fmt::format("{} cannot unpack from {} to {} bytes", entry.name, entry.packed,
                                entry.unpacked));
  std::string bytes =
      entry.method == kStored ? std::string(packed) : inflate(archive, entry, packed);
  const uLong checksum = crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size());
  if (checksum != entry.checksum)
    archive.damaged(fmt::format("{} has checksum {:08x}, the archive says {:08x}", entry.name,
                                checksum, entry.checksum));
  return bytes;
}

}  // namespace linea
