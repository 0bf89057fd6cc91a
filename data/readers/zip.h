// Zip archives of one file, such as text8's and enwik8's: stored or deflated, not encrypted, not
// zip64.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "data/files.h"

namespace linea {

// The bytes of the only file in the archive (folders beside it are passed over). Every size is
// checked against the archive before memory is taken, the CRC-32 afterwards. Error:
// ErrorKind::input where the archive is cut, damaged or of a kind that is not read, or where it
// holds no file or several.
std::string read_zip(const std::filesystem::path& path, int64_t max_bytes = kMaxFileBytes);

}  // namespace linea
