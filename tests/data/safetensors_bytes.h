// Safetensors files made by hand, in memory.
#pragma once

#include <string>
#include <vector>

#include "data/safetensors.h"
#include "tests/data/data_helpers.h"

namespace linea {

inline std::string size_bytes(uint64_t size) {
  std::string bytes(8, '\0');
  for (size_t i = 0; i < 8; ++i) bytes[i] = static_cast<char>(size >> (8 * i) & 255);
  return bytes;
}

inline std::string file_of(const std::string& header, const std::string& data = "") {
  return size_bytes(header.size()) + header + data;
}

inline SafetensorsFile parse(const std::string& header, const std::string& data = "") {
  return SafetensorsFile::parse(file_of(header, data), "some.file");
}

inline void refuses(const std::string& header, const std::string& data, const std::string& reason,
                    const std::string& more = "") {
  SCOPED_TRACE(header.substr(0, 200));
  expect_error(ErrorKind::input, {"some.file: ", reason, more}, [&] { parse(header, data); });
}

template <typename T>
inline std::string bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

// The text of one tensor, with its braces.
inline std::string tensor(const std::string& dtype, const std::string& shape,
                          const std::string& offsets, const std::string& more = "") {
  return fmt::format(R"({{"dtype":"{}","shape":[{}],"data_offsets":[{}]{}}})", dtype, shape,
                     offsets, more);
}

inline std::string only(const std::string& text) { return R"({"a":)" + text + "}"; }

inline Tensor read_only(const std::string& dtype, const std::string& shape,
                        const std::string& data) {
  return parse(only(tensor(dtype, shape, fmt::format("0,{}", data.size()))), data).read("a");
}

// Two tensors (F32 [2], U8 [3]) and metadata.
inline std::string small_file() {
  return file_of(R"({"__metadata__":{"k":"v"},"a":)" + tensor("F32", "2", "0,8") + R"(,"b":)" +
                     tensor("U8", "3", "8,11") + "}",
                 bytes_of<float>({1.5f, -2.0f}) + std::string("\1\2\3", 3));
}

}  // namespace linea
