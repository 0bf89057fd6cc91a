// The text of lessons: Markdown with formulas between dollars (lab/formula.h), and numbers that say
// where they come from, as links:
//
//   [4,160](=64*(64+1))                exact: by an expression of numbers, + - * / and functions
//   [74.27](<@linear; 1024 naive @7>)  measured: a word of the last output (lab/expect.h); pages and
//                                      terminals show that of the run in place of this one
//   [1.9236](docs/lab-notes/text.md)   published there
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace linea::lab {

// What becomes of a measured number, given the place in the output and the text of the lesson.
using MeasuredText = std::function<std::string(const std::string& place, const std::string& text)>;

// For a terminal: without dollars and links; numbers that were measured as `measured` gives them.
std::string plain_text(const std::string& markdown, const MeasuredText& measured);

// Error: ErrorKind::usage, this program was built without md4c.
void check_pages_can_be_made();

// Paragraphs, headings, lists and tables as HTML; HTML in the text stays text. `measured` gives
// HTML. Error: as above.
std::string to_html(const std::string& markdown, const MeasuredText& measured);

}  // namespace linea::lab
