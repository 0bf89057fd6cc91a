#include "data/readers/text_file.h"

#include <algorithm>
#include <cctype>

#include "data/files.h"
#include "data/readers/file_kind.h"
#include "data/readers/gzip.h"
#include "data/readers/zip.h"
#include "tensor/error.h"

namespace linea {
namespace {

// The packing of a text, by the first bytes or by the name.
enum class Packing { none, gzip, zip };

Packing packing_of(const std::string& bytes, std::string extension, TextKind kind) {
  if (kind == TextKind::content) {
    if (bytes.starts_with(kGzipStart)) return Packing::gzip;
    if (bytes.starts_with(kZipStart)) return Packing::zip;
  }
  std::transform(extension.begin(), extension.end(), extension.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  return extension == ".gz" ? Packing::gzip : extension == ".zip" ? Packing::zip : Packing::none;
}

}  // namespace

std::string read_text_file(const std::filesystem::path& path, TextKind kind) {
  std::string text = read_file(path);
  const Packing packing = packing_of(text, path.extension().string(), kind);
  if (packing != Packing::none) text = packing == Packing::gzip ? read_gzip(path) : read_zip(path);
  if (kind == TextKind::content) {
    if (const auto found = foreign_kind(text))
      fail(ErrorKind::input, "{}: {} {}{}; {}", path.string(),
           packing == Packing::none ? "is" : "holds", found->name,
           packing == Packing::gzip  ? " in gzip"
           : packing == Packing::zip ? " in a zip archive"
                                     : "",
           found->remedy);
    constexpr const char* kByteOrderMark = "\xEF\xBB\xBF";
    if (text.starts_with(kByteOrderMark)) text.erase(0, 3);
  }
  if (text.empty()) fail(ErrorKind::input, "{}: is empty; name a file with text", path.string());
  return text;
}

}  // namespace linea
