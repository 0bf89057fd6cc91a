// UTF-8: its characters, and bytes that are none. What Linea writes for others to read (JSON, HTML,
// SVG, event files, messages) is UTF-8, whatever the names and texts in it are.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace linea {

constexpr char32_t kCodePoints = 0x110000;
constexpr char32_t kNotUtf8 = kCodePoints;

// Half of a pair of UTF-16, which is no character.
bool is_surrogate(char32_t code);

// Decodes the character at `position` and advances past it; kNotUtf8, without advancing, where it
// is not valid. Overlong forms, surrogates and codes beyond U+10FFFF are refused, so that decoding
// and append_utf8 are inverses.
char32_t next_character(std::string_view text, size_t& position);
void append_utf8(std::string& text, char32_t code);

// The index of the first byte that is not UTF-8; the size of the text where it is all valid.
size_t first_non_utf8(std::string_view text);

// The longest beginning of at most `bytes` bytes that does not cut a character.
std::string_view cut_utf8(std::string_view text, size_t bytes);

// The bytes of `text` before which no character is cut; all of it where it is not UTF-8.
size_t whole_characters(std::string_view text);

// The text with each byte that is not UTF-8 written as \xE9. U+FFFE and U+FFFF, which XML does not
// allow, become bytes too.
std::string valid_utf8(std::string_view text);

}  // namespace linea
