// Which kind of file some bytes are, where they are not a text: by the first bytes of its format,
// whatever the file's name is.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace linea {

struct FileKind {
  std::string name;    // "a tar archive"
  std::string remedy;  // "unpack it by tar -xf and name a file in it"
};

constexpr std::string_view kGzipStart("\x1F\x8B", 2);
constexpr std::string_view kZipStart("PK\3\4", 4);

// Archives, documents, media, programs, databases, and pointers to files that are elsewhere.
// `bytes`: all of a file of `file_bytes`, or its first and last ones.
std::optional<FileKind> foreign_kind(std::string_view bytes, uint64_t file_bytes);

// The kind of a zip archive that is a document or a program, by the names of its files.
std::optional<FileKind> package_kind(const std::vector<std::string>& names);

// Text of another encoding, as " (it is UTF-16; convert it by iconv ...)"; "" where it is UTF-8 or
// nothing that is known.
std::string encoding_hint(std::string_view text);

}  // namespace linea
