// Hand-made tar archives, good and damaged.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "base/error.h"

namespace linea {

// A header and the bytes, filled up to whole blocks. `size`: what the header says.
inline std::string tar_entry(const std::string& name, const std::string& bytes, char kind,
                             int64_t size, const std::string& prefix = "") {
  std::string header(512, '\0');
  const auto put = [&](size_t position, const std::string& text) {
    std::copy(text.begin(), text.end(),
              header.begin() + static_cast<std::string::difference_type>(position));
  };
  put(0, name);
  put(100, "0000644");
  put(124, fmt::format("{:011o}", size));
  put(148, "        ");
  header[156] = kind;
  put(257, "ustar");
  put(263, "00");
  put(345, prefix);
  int64_t sum = 0;
  for (const char byte : header) sum += static_cast<unsigned char>(byte);
  put(148, fmt::format("{:06o}", sum) + '\0');
  return header + bytes + std::string((512 - bytes.size() % 512) % 512, '\0');
}

inline std::string tar_file(const std::string& name, const std::string& bytes) {
  return tar_entry(name, bytes, '0', static_cast<int64_t>(bytes.size()));
}

inline const std::string kTarEnd = std::string(1024, '\0');

}  // namespace linea
