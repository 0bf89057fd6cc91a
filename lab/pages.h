// The pages of a lab: one a lesson that was run, and their index. Each is one file without others,
// made of the lesson and of the file in data/ alone.
#pragma once

#include <filesystem>
#include <string>

#include "lab/record.h"

namespace linea::lab {

std::string lesson_page(const Lesson& lesson, const Record& record,
                        const std::filesystem::path& folder);
// Writes all pages of `folder`/data, and index.html. -> how many lessons have one. Errors:
// ErrorKind::input, ErrorKind::write; those of lab/markdown.h.
size_t write_pages(const std::filesystem::path& folder);

std::string lab_style();
std::string lab_script();

}  // namespace linea::lab
