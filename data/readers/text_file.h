// A file with a text: plain, gzip, or the one file of a zip archive.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "data/text_source.h"

namespace linea {

// How a file's kind is found. `content`: by its first bytes, whatever its name is; a byte order
// mark of UTF-8 is left out, and what is not a text is refused. `name`: .gz and .zip are unpacked,
// all else is taken as it is, for models of bytes.
enum class TextKind { content, name };

// Error: ErrorKind::input for a file that is empty, is damaged or, by its content, is no text
// (data/readers/file_kind.h); the message names the kind and what to do.
std::shared_ptr<const TextSource> open_text_file(const std::filesystem::path& path,
                                                 TextKind kind = TextKind::content);
std::string read_text_file(const std::filesystem::path& path, TextKind kind = TextKind::content);

}  // namespace linea
