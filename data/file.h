// Whole files in and out. A file is read only after its size is known and allowed; a written file
// appears whole under its name or not at all.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace linea {

constexpr int64_t kMaxFileBytes = int64_t{1} << 30;

// The size in bytes; an input error if `path` is missing, a folder or anything but a plain file.
int64_t plain_file_size(const std::filesystem::path& path);

std::string read_file(const std::filesystem::path& path, int64_t max_bytes = kMaxFileBytes);

// Writes PATH.tmp and renames it: a full disk or a crash never leaves half a file under `path`.
void write_file(const std::filesystem::path& path, std::string_view bytes);

}  // namespace linea
