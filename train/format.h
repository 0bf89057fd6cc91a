// Quantities in messages and reports.
#pragma once

#include <string>

namespace linea {

std::string format_duration(double seconds);  // "1h02m", "3m05s", "12s"
std::string format_bytes(double bytes);       // "1.5 GiB"
std::string format_count(double count);       // "12.3k"

}  // namespace linea
