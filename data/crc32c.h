// CRC-32C (Castagnoli), the checksum of TFRecord files.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace linea {

// The remainder of each byte; the polynomial is 0x1EDC6F41 with its bits reversed.
constexpr std::array<uint32_t, 256> crc32c_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t remainder = byte;
    for (int bit = 0; bit < 8; ++bit)
      remainder = remainder >> 1 ^ ((remainder & 1) != 0 ? 0x82F63B78u : 0u);
    table[byte] = remainder;
  }
  return table;
}

inline uint32_t crc32c(std::string_view bytes) {
  static constexpr std::array<uint32_t, 256> kTable = crc32c_table();
  uint32_t remainder = 0xFFFFFFFFu;
  for (const char byte : bytes)
    remainder = remainder >> 8 ^ kTable[(remainder ^ static_cast<uint8_t>(byte)) & 0xFF];
  return ~remainder;
}

// The form stored in TFRecords: a CRC of bytes that contain their own CRCs would be weak.
inline uint32_t masked_crc32c(std::string_view bytes) {
  const uint32_t crc = crc32c(bytes);
  return (crc >> 15 | crc << 17) + 0xA282EAD8u;
}

}  // namespace linea
