// The records of an event file, read without anything that wrote them.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <string>
#include <vector>

namespace linea {

// CRC-32C bit by bit, without a table.
inline uint32_t slow_crc32c(const std::string& bytes) {
  uint32_t crc = 0xFFFFFFFFu;
  for (const char byte : bytes) {
    crc ^= static_cast<uint8_t>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = (crc & 1) != 0 ? (crc >> 1) ^ 0x82F63B78u : crc >> 1;
  }
  return crc ^ 0xFFFFFFFFu;
}

inline uint32_t slow_masked_crc32c(const std::string& bytes) {
  const uint32_t crc = slow_crc32c(bytes);
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

template <typename T>
T read_as(const std::string& bytes, size_t at) {
  T value{};
  EXPECT_LE(at + sizeof value, bytes.size());
  if (at + sizeof value <= bytes.size()) std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

// The data of each record; a failure of the test where one is cut or a checksum is wrong.
inline std::vector<std::string> records_of(const std::string& file) {
  std::vector<std::string> records;
  for (size_t at = 0; at < file.size();) {
    if (file.size() - at < 16) {
      ADD_FAILURE() << "a cut record at " << at;
      break;
    }
    const auto length = read_as<uint64_t>(file, at);
    EXPECT_EQ(read_as<uint32_t>(file, at + 8), slow_masked_crc32c(file.substr(at, 8)));
    if (length > file.size() - at - 16) {
      ADD_FAILURE() << "a cut record at " << at;
      break;
    }
    records.push_back(file.substr(at + 12, length));
    EXPECT_EQ(read_as<uint32_t>(file, at + 12 + length), slow_masked_crc32c(records.back()));
    at += 16 + length;
  }
  return records;
}

// The fields of a protobuf message: numbers as they are stored (a double or float as its bytes),
// messages and texts as bytes, each under its field number.
struct Fields {
  std::multimap<uint32_t, std::string> bytes;
  std::map<uint32_t, uint64_t> integers;

  explicit Fields(const std::string& message) {
    size_t at = 0;
    const auto varint = [&] {
      uint64_t value = 0;
      for (int shift = 0; at < message.size(); shift += 7) {
        const auto byte = static_cast<uint8_t>(message[at++]);
        value |= static_cast<uint64_t>(byte & 0x7F) << shift;
        if (byte < 0x80) break;
      }
      return value;
    };
    while (at < message.size()) {
      const uint64_t key = varint();
      const auto field = static_cast<uint32_t>(key >> 3);
      uint64_t size = 0;
      switch (key & 7) {
        case 0:
          integers[field] = varint();
          continue;
        case 1:
          size = 8;
          break;
        case 2:
          size = varint();
          break;
        case 5:
          size = 4;
          break;
        default:
          ADD_FAILURE() << "wire type " << (key & 7);
          return;
      }
      if (size > message.size() - at) {
        ADD_FAILURE() << "a cut field " << field;
        return;
      }
      bytes.emplace(field, message.substr(at, size));
      at += size;
    }
  }

  std::string at(uint32_t field) const {
    EXPECT_EQ(bytes.count(field), 1u) << "field " << field;
    const auto found = bytes.find(field);
    return found == bytes.end() ? "" : found->second;
  }
  Fields message(uint32_t field) const { return Fields(at(field)); }
  std::vector<Fields> messages(uint32_t field) const {
    std::vector<Fields> found;
    const auto [first, last] = bytes.equal_range(field);
    for (auto it = first; it != last; ++it) found.emplace_back(it->second);
    return found;
  }
  uint64_t integer(uint32_t field) const {
    const auto found = integers.find(field);
    return found == integers.end() ? 0 : found->second;
  }
};

}  // namespace linea
