#include "data/utf8.h"

#include <algorithm>

#include <fmt/format.h>

namespace linea {

bool is_surrogate(char32_t code) { return code >= 0xD800 && code < 0xE000; }

char32_t next_character(std::string_view text, size_t& position) {
  const auto byte_at = [text](size_t at) -> char32_t {
    return static_cast<unsigned char>(text[at]);
  };
  const char32_t first = byte_at(position);
  if (first < 0x80) {
    ++position;
    return first;
  }
  const size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC0 || first >= 0xF8 || length > text.size() - position) return kNotUtf8;
  char32_t code = first & (0x7F >> length);
  for (size_t i = 1; i < length; ++i) {
    const char32_t next = byte_at(position + i);
    if ((next & 0xC0) != 0x80) return kNotUtf8;
    code = code << 6 | (next & 0x3F);
  }
  constexpr char32_t kMin[] = {0x80, 0x800, 0x10000};  // of 2, 3 and 4 bytes
  if (code < kMin[length - 2] || code >= kCodePoints || is_surrogate(code)) return kNotUtf8;
  position += length;
  return code;
}

void append_utf8(std::string& text, char32_t code) {
  const auto put = [&text](char32_t byte) { text += static_cast<char>(byte); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xC0 | code >> 6);
    put(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    put(0xE0 | code >> 12);
    put(0x80 | (code >> 6 & 0x3F));
    put(0x80 | (code & 0x3F));
  } else {
    put(0xF0 | code >> 18);
    put(0x80 | (code >> 12 & 0x3F));
    put(0x80 | (code >> 6 & 0x3F));
    put(0x80 | (code & 0x3F));
  }
}

size_t first_non_utf8(std::string_view text) {
  size_t position = 0;
  while (position < text.size() && next_character(text, position) != kNotUtf8) continue;
  return position;
}

std::string_view cut_utf8(std::string_view text, size_t bytes) {
  if (text.size() <= bytes) return text;
  size_t end = bytes;
  while (end > 0 && bytes - end < 3 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80)
    --end;
  return text.substr(0, end);
}

size_t whole_characters(std::string_view text) {
  // A character has at most 4 bytes, so the last one starts in the last 4.
  for (size_t back = 1; back <= std::min<size_t>(4, text.size()); ++back) {
    const auto byte = static_cast<unsigned char>(text[text.size() - back]);
    if ((byte & 0xC0) == 0x80) continue;
    const size_t length = byte < 0xC0 ? 1 : byte >= 0xF0 ? 4 : byte >= 0xE0 ? 3 : 2;
    return byte < 0xF8 && length > back ? text.size() - back : text.size();
  }
  return text.size();
}

std::string valid_utf8(std::string_view text) {
  std::string valid;
  valid.reserve(text.size());
  for (size_t position = 0; position < text.size();) {
    const size_t start = position;
    const char32_t code = next_character(text, position);
    const bool escaped = code == kNotUtf8 || code == 0xFFFE || code == 0xFFFF;
    if (code == kNotUtf8) ++position;
    for (size_t i = start; i < position; ++i) {
      if (escaped)
        valid += fmt::format("\\x{:02X}", static_cast<unsigned char>(text[i]));
      else
        valid += text[i];
    }
  }
  return valid;
}

}  // namespace linea
