// The pages of a lab: one a lesson that was run, and their index. Each is one file without others,
// made of the lesson and of the file in data/ alone.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "lab/record.h"

namespace linea::lab {

std::string lesson_page(const Lesson& lesson, const Record& record,
                        const std::filesystem::path& folder);
// Writes all pages of `folder`/data, and index.html. -> how many lessons have one. Errors:
// ErrorKind::input, ErrorKind::write; those of lab/markdown.h.
size_t write_pages(const std::filesystem::path& folder);

// Names and titles of the pages that no run makes: those of side_pages(), and map, all attentions.
std::vector<std::pair<std::string, std::string>> side_page_titles();
void write_side_pages(const std::filesystem::path& folder);
// A page of the lab around its header, main and footer.
std::string whole_page(const std::string& title, const std::string& body,
                       const std::string& language = "en");
// One with a link to the index and a heading.
std::string plain_page(const std::string& title, const std::string& body,
                       const std::string& footer = "");
std::string command_box(const std::string& command);
// Who made it, where, and how to make it again.
std::string page_footer(const Record& record);
std::string lab_style();
std::string lab_script();

}  // namespace linea::lab
