// Names and values out of files, as messages show them.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

namespace linea {

inline bool is_control(char byte) {
  const auto code = static_cast<unsigned char>(byte);
  return code < 0x20 || code == 0x7F;
}

// Short, and without control characters, which could break a message's line or be obeyed by a
// terminal.
inline std::string one_line(std::string_view text) {
  constexpr size_t kMax = 200;
  std::string shown(text.substr(0, kMax));
  std::replace_if(shown.begin(), shown.end(), is_control, '?');
  return text.size() > kMax ? shown + "..." : shown;
}

}  // namespace linea
