#include "data/readers/text_file.h"

#include <algorithm>
#include <cctype>

#include "base/error.h"
#include "data/readers/file_kind.h"
#include "data/readers/gzip.h"
#include "data/readers/zip.h"

namespace linea {
namespace {

// The packing of a text, by the first bytes or by the name.
enum class Packing { none, gzip, zip };

Packing packing_of(std::string_view bytes, std::string extension, TextKind kind) {
  if (kind == TextKind::content) {
    if (bytes.starts_with(kGzipStart)) return Packing::gzip;
    if (bytes.starts_with(kZipStart)) return Packing::zip;
  }
  std::transform(extension.begin(), extension.end(), extension.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  return extension == ".gz" ? Packing::gzip : extension == ".zip" ? Packing::zip : Packing::none;
}

}  // namespace

std::shared_ptr<const TextSource> open_text_file(const std::filesystem::path& path, TextKind kind) {
  auto source = std::make_shared<TextSource>(path);
  std::string buffer;
  const Packing packing = packing_of(source->start(buffer), path.extension().string(), kind);
  if (packing != Packing::none)
    source = std::make_shared<TextSource>(
        packing == Packing::gzip ? read_gzip(path) : read_zip(path), path.string());
  if (kind == TextKind::content) {
    const std::string_view start = source->start(buffer);
    if (const auto found = foreign_kind(start, static_cast<uint64_t>(source->size())))
      fail(ErrorKind::input, "{}: {} {}{}; {}", path.string(),
           packing == Packing::none ? "is" : "holds", found->name,
           packing == Packing::gzip  ? " in gzip"
           : packing == Packing::zip ? " in a zip archive"
                                     : "",
           found->remedy);
    if (start.starts_with("\xEF\xBB\xBF")) source->leave_out(3);  // a byte order mark
  }
  if (source->size() == 0)
    fail(ErrorKind::input, "{}: is empty; name a file with text", path.string());
  return source;
}

std::string read_text_file(const std::filesystem::path& path, TextKind kind) {
  const std::shared_ptr<const TextSource> source = open_text_file(path, kind);
  std::string buffer;
  return std::string(source->read(0, source->size(), buffer));
}

}  // namespace linea
