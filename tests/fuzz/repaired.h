// Bytes whose checksums fit again after a change: behind the checksum the reader has to be right,
// too.
#pragma once

#include <string>

namespace linea::fuzz {

// In every block of 512 bytes with tar's mark.
std::string with_tar_checksums(std::string bytes);

// In every chunk of a PNG, up to one that is cut.
std::string with_png_checksums(std::string bytes);

}  // namespace linea::fuzz
