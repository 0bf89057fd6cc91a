#include "data/readers/zip.h"

#include <zlib.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "data/one_line.h"
#include "data/readers/file_kind.h"
#include "data/readers/gzip.h"

namespace linea {
namespace {

constexpr int kRawDeflate = -15;  // zlib: a window of 32 KiB, no header
constexpr uint64_t kStored = 0, kDeflated = 8, kEncrypted = 1;

// Signatures of the records, and the sizes of their fixed parts.
constexpr std::string_view kLocalSignature("PK\3\4", 4), kEntrySignature("PK\1\2", 4),
    kEndSignature("PK\5\6", 4);
constexpr size_t kLocalBytes = 30, kEntryBytes = 46, kEndBytes = 22, kMaxComment = 65535;

struct Entry {
  std::string name;
  uint64_t flags, method, checksum, compressed, uncompressed;
  uint64_t local;  // position of the local header
};

class Archive {
 public:
  Archive(std::string bytes, std::string name) : bytes_(std::move(bytes)), name_(std::move(name)) {}

  // The entries of the central directory, which is between the files and the end record.
  std::vector<Entry> entries() {
    const size_t end = find_end();
    const uint64_t count = number(end + 10, 2), size = number(end + 12, 4);
    directory_ = number(end + 16, 4);
    if (count == 0xFFFF || directory_ == 0xFFFFFFFF)
      fail(ErrorKind::input,
           "{}: is a zip64 archive, which is not supported; unpack it and name the file", name_);
    if (number(end + 4, 4) != 0 || number(end + 8, 2) != count || directory_ + size != end)
      damaged(fmt::format("its directory of {} bytes at {} does not end at byte {}", size,
                          directory_, end));
    std::vector<Entry> found;
    size_t position = directory_;
    for (uint64_t i = 0; i < count; ++i) {
      if (end - position < kEntryBytes || !has_signature(position, kEntrySignature))
        damaged(fmt::format("entry {} of {} is missing from its directory", i + 1, count));
      const uint64_t name_length = number(position + 28, 2);
      const uint64_t length =
          kEntryBytes + name_length + number(position + 30, 2) + number(position + 32, 2);
      if (length > end - position)
        damaged(fmt::format("entry {} of {} is truncated", i + 1, count));
      found.push_back({bytes_.substr(position + kEntryBytes, name_length), number(position + 8, 2),
                       number(position + 10, 2), number(position + 16, 4), number(position + 20, 4),
                       number(position + 24, 4), number(position + 42, 4)});
      position += length;
    }
    if (position != end) damaged(fmt::format("{} bytes after its directory", end - position));
    return found;
  }

  // The compressed bytes of an entry, which must be before the central directory.
  std::string_view compressed_bytes(const Entry& entry) const {
    if (entry.local > directory_ || directory_ - entry.local < kLocalBytes ||
        !has_signature(entry.local, kLocalSignature))
      damaged(fmt::format("{} does not start at byte {}", entry.name, entry.local));
    const uint64_t name_length = number(entry.local + 26, 2);
    const uint64_t header = kLocalBytes + name_length + number(entry.local + 28, 2);
    const uint64_t room = directory_ - entry.local;
    if (header > room || entry.compressed > room - header)
      damaged(
          fmt::format("{} of {} bytes reaches into the directory", entry.name, entry.compressed));
    if (bytes_.compare(entry.local + kLocalBytes, name_length, entry.name) != 0 ||
        number(entry.local + 8, 2) != entry.method)
      damaged(fmt::format("{} has another name or method in its local header", entry.name));
    return std::string_view(bytes_).substr(entry.local + header, entry.compressed);
  }

  [[noreturn]] void damaged(const std::string& reason) const {
    fail(ErrorKind::input, "{}: is not a valid zip archive: {}; download it again", name_,
         one_line(reason));
  }

 private:
  size_t find_end() const {
    for (size_t comment = 0; comment <= kMaxComment && comment + kEndBytes <= bytes_.size();
         ++comment) {
      const size_t position = bytes_.size() - kEndBytes - comment;
      if (has_signature(position, kEndSignature) && number(position + 20, 2) == comment)
        return position;
    }
    damaged("the end record is missing");
  }

  bool has_signature(size_t position, std::string_view signature) const {
    return std::string_view(bytes_).substr(position, signature.size()) == signature;
  }

  // Little-endian.
  uint64_t number(size_t position, size_t length) const {
    uint64_t value = 0;
    for (size_t i = length; i-- > 0;)
      value = value << 8 | static_cast<unsigned char>(bytes_[position + i]);
    return value;
  }

  std::string bytes_, name_;
  uint64_t directory_ = 0;
};

// Memory grows with the output, up to one byte more than the entry's size.
std::string inflate(const Archive& archive, const Entry& entry, std::string_view compressed) {
  z_stream stream{};
  if (inflateInit2(&stream, kRawDeflate) != Z_OK)
    fail(ErrorKind::memory, "no memory to unpack {}", one_line(entry.name));
  stream.next_in =
      reinterpret_cast<Bytef*>(const_cast<char*>(compressed.data()));  // zlib does not write there
  stream.avail_in = static_cast<uInt>(compressed.size());
  std::string bytes;
  int code = Z_OK;
  while (code == Z_OK && bytes.size() <= entry.uncompressed) {
    const size_t before = bytes.size();
    bytes.resize(
        static_cast<size_t>(std::min<uint64_t>(entry.uncompressed + 1, before + kBufferBytes)));
    stream.next_out = reinterpret_cast<Bytef*>(bytes.data() + before);
    stream.avail_out = static_cast<uInt>(bytes.size() - before);
    code = ::inflate(&stream, Z_NO_FLUSH);
    bytes.resize(bytes.size() - stream.avail_out);
  }
  const bool complete =
      code == Z_STREAM_END && stream.avail_in == 0 && bytes.size() == entry.uncompressed;
  inflateEnd(&stream);
  if (!complete)
    archive.damaged(fmt::format("{} does not unpack from {} to {} bytes", entry.name,
                                entry.compressed, entry.uncompressed));
  return bytes;
}

// Entries that systems add to archives: folders, and the notes of macOS and Windows on files.
bool is_added_by_systems(const std::string& name) {
  const std::string file = name.substr(name.rfind('/') + 1);
  return file.empty() || name.starts_with("__MACOSX/") || file.starts_with("._") ||
         file == ".DS_Store" || file == "Thumbs.db" || file == "desktop.ini";
}

const Entry& only_file(const std::vector<Entry>& entries, const std::string& name) {
  std::vector<std::string> names, files;
  const Entry* file = nullptr;
  for (const Entry& entry : entries) {
    names.push_back(entry.name);
    if (is_added_by_systems(entry.name)) continue;
    files.push_back(one_line(entry.name));
    file = &entry;
  }
  if (const auto kind = package_kind(names))
    fail(ErrorKind::input, "{}: is {}; {}", name, kind->name, kind->remedy);
  if (files.size() != 1)
    fail(ErrorKind::input,
         "{}: holds {} files{}, only an archive of one file can be read; unpack it and name the "
         "file",
         name, files.size(),
         files.empty()
             ? ""
             : fmt::format(" ({}, {}{})", files[0], files[1], files.size() > 2 ? ", ..." : ""));
  return *file;
}

}  // namespace

std::string read_zip(const std::filesystem::path& path, int64_t max_bytes) {
  const std::string name = path.string();
  Archive archive(read_file(path, max_bytes), name);
  const std::vector<Entry> entries = archive.entries();
  const Entry& entry = only_file(entries, name);
  if ((entry.flags & kEncrypted) != 0 || (entry.method != kStored && entry.method != kDeflated))
    fail(ErrorKind::input, "{}: {} is {}, which is not supported; unpack it and name the file",
         name, one_line(entry.name),
         (entry.flags & kEncrypted) != 0 ? "encrypted"
                                         : fmt::format("compressed by method {}", entry.method));
  if (entry.uncompressed > static_cast<uint64_t>(max_bytes))
    fail(ErrorKind::input, "{}: {} unpacks to {} bytes, at most {} can be read; use a smaller file",
         name, one_line(entry.name), entry.uncompressed, max_bytes);
  const std::string_view compressed = archive.compressed_bytes(entry);
  if (entry.method == kStored ? entry.compressed != entry.uncompressed
                              : entry.uncompressed / kMaxExpansion > entry.compressed)
    archive.damaged(fmt::format("{} cannot unpack from {} to {} bytes", entry.name,
                                entry.compressed, entry.uncompressed));
  std::string bytes =
      entry.method == kStored ? std::string(compressed) : inflate(archive, entry, compressed);
  const uLong checksum = crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size());
  if (checksum != entry.checksum)
    archive.damaged(fmt::format("{} has checksum {:08x}, the archive says {:08x}", entry.name,
                                checksum, entry.checksum));
  return bytes;
}

}  // namespace linea
