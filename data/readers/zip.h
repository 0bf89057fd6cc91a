// Zip archives of one file, such as text8's and enwik8's: stored or deflated; encryption and zip64
// are not supported.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "data/files.h"

namespace linea {

// The bytes of the only file in the archive; folders and what macOS and Windows add (__MACOSX/._a,
// .DS_Store, Thumbs.db) do not count. Every size is checked against the archive before memory is
// allocated, the CRC-32 after unpacking. Error: ErrorKind::input for an archive that is truncated,
// damaged or not supported, that is a document (.docx, .epub), or that does not hold exactly one
// file.
std::string read_zip(const std::filesystem::path& path, int64_t max_bytes = kMaxFileBytes);

}  // namespace linea
