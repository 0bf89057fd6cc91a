// Names and values from files, for messages.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

#include "data/utf8.h"

namespace linea {

inline bool is_control(char byte) {
  const auto code = static_cast<unsigned char>(byte);
  return code < 0x20 || code == 0x7F;
}

// Shortened, as UTF-8, and without control characters, which could break the line or control the
// terminal.
inline std::string one_line(std::string_view text) {
  constexpr size_t kMax = 200;
  std::string shown = valid_utf8(cut_utf8(text, kMax));
  std::replace_if(shown.begin(), shown.end(), is_control, '?');
  return text.size() > kMax ? shown + "..." : shown;
}

}  // namespace linea
