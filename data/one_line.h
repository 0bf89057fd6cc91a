// Names and values from files, for messages.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

namespace linea {

inline bool is_control(char byte) {
  const auto code = static_cast<unsigned char>(byte);
  return code < 0x20 || code == 0x7F;
}

// Shortened, and without control characters, which could break the line or control the terminal.
inline std::string one_line(std::string_view text) {
  constexpr size_t kMax = 200;
  std::string shown(text.substr(0, kMax));
  std::replace_if(shown.begin(), shown.end(), is_control, '?');
  return text.size() > kMax ? shown + "..." : shown;
}

// A name of any bytes in ASCII: a byte of another character as \xE9.
inline std::string escape_bytes(std::string_view name) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string shown;
  for (const char byte : name) {
    const auto code = static_cast<unsigned char>(byte);
    if (code < 0x80 && !is_control(byte))
      shown += byte;
    else
      shown.append("\\x").append({kDigits[code >> 4], kDigits[code & 15]});
  }
  return shown;
}

}  // namespace linea
