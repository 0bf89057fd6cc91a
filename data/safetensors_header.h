// The header of a safetensors file: JSON that names tensors, their types, shapes and byte ranges.
// Read strictly: whatever two readers could understand in two ways is refused. No tensor bytes
// here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace linea {

inline constexpr uint64_t kMaxSafetensorsHeader = 100'000'000;  // bytes

struct SafetensorsEntry {
  std::string name;
  std::string dtype;            // as the format spells it: "F32"
  std::vector<int64_t> shape;   // may have more axes than a Tensor; its product fits int64
  uint64_t begin = 0, end = 0;  // bytes, counted from the first byte after the header
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;        // sorted by begin, end, name
  std::map<std::string, std::string> metadata;  // of "__metadata__"
  std::vector<std::string> warnings;  // one line for each name of a field that was ignored
};

// Bytes an element has in a file; 0 for a dtype that is not known.
size_t safetensors_element_bytes(std::string_view dtype);

// Checks everything but the tensors' bytes: the entries cover `data_bytes` without hole or overlap.
// Error: ErrorKind::input that begins with `path`.
SafetensorsHeader parse_safetensors_header(std::string_view json, uint64_t data_bytes,
                                           const std::string& path);

// The JSON of a header, entries in their order, metadata first and sorted by key. Spaces before its
// last brace make its length a multiple of 8: none stand around it. Error: ErrorKind::usage for
// names or metadata that no reader would accept.
std::string format_safetensors_header(const std::vector<SafetensorsEntry>& entries,
                                      const std::map<std::string, std::string>& metadata);

// Any bytes as one short line for messages: a JSON string, cut when long.
std::string quoted_name(std::string_view text);

}  // namespace linea
