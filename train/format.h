// Quantities in messages and reports.
#pragma once

#include <cstdint>
#include <string>

namespace linea {

std::string format_duration(double seconds);                 // "1h02m", "3m05s", "12s"
std::string format_bytes(double bytes);                      // "1.5 GiB"
std::string format_count(double count);                      // "12.3k"
std::string plural(int64_t count, const std::string& noun);  // "1 step", "2 steps"

// A word of a command that the user copies: RUN, 'my run', and $'a\012b' where it has control
// characters or is not UTF-8.
std::string shell_word(const std::string& word);
// A path as such a word that is no option: './-run'.
std::string shell_quote(const std::string& path);

}  // namespace linea
