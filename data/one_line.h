// Names and values out of files, as messages show them.
#pragma once

#include <string>
#include <string_view>

namespace linea {

// Short, and without control characters, which could break a message's line or be obeyed by a terminal.
inline std::string one_line(std::string_view text) {
  constexpr size_t kMost = 200;
  std::string shown(text.substr(0, kMost));
  for (char& byte : shown) {
    const auto code = static_cast<unsigned char>(byte);
    if (code < 0x20 || code == 0x7F) byte = '?';
  }
  return text.size() > kMost ? shown + "..." : shown;
}

}  // namespace linea
