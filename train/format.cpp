#include "train/format.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "data/one_line.h"
#include "data/vocabulary.h"

namespace linea {

std::string format_duration(double seconds) {
  const auto rounded = static_cast<int64_t>(seconds + 0.5);
  if (rounded >= 3600) return fmt::format("{}h{:02}m", rounded / 3600, rounded % 3600 / 60);
  if (rounded >= 60) return fmt::format("{}m{:02}s", rounded / 60, rounded % 60);
  return fmt::format("{}s", rounded);
}

std::string format_bytes(double bytes) {
  if (bytes >= 1073741824.0) return fmt::format("{:.2f} GiB", bytes / 1073741824.0);
  return fmt::format("{:.1f} MiB", bytes / 1048576.0);
}

std::string format_count(double count) {
  if (count >= 1e6) return fmt::format("{:.2f}M", count / 1e6);
  if (count >= 1e4) return fmt::format("{:.1f}k", count / 1e3);
  return fmt::format("{:.0f}", count);
}

std::string plural(int64_t count, const std::string& noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

std::string shell_quote(const std::string& path) {
  return shell_word(path.starts_with('-') ? "./" + path : path);
}

std::string shell_word(const std::string& word) {
  const auto is_plain = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
           std::string_view("_./,:=+@%-").find(c) != std::string_view::npos;
  };
  if (!word.empty() && std::all_of(word.begin(), word.end(), is_plain)) return word;
  const bool escapes =
      first_non_utf8(word) < word.size() || std::any_of(word.begin(), word.end(), is_control);
  std::string quoted = escapes ? "$'" : "'";
  for (const char c : word) {
    if (escapes && (c < ' ' || c > '~')) {
      quoted += fmt::format("\\{:03o}", static_cast<unsigned char>(c));
    } else if (c == '\'') {
      quoted += escapes ? "\\'" : "'\\''";
    } else {
      quoted += escapes && c == '\\' ? "\\\\" : std::string(1, c);
    }
  }
  return quoted + "'";
}

}  // namespace linea
