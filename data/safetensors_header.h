// The header of a safetensors file: JSON with the names, types, shapes and byte ranges of the
// tensors. Parsing is strict: whatever is ambiguous is refused.
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
  std::vector<int64_t> shape;   // may have more axes than a Tensor; the product fits int64
  uint64_t begin = 0, end = 0;  // bytes, counted from the first byte after the header
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;        // sorted by begin, end, name
  std::map<std::string, std::string> metadata;  // of "__metadata__"
  std::vector<std::string> warnings;            // one line for each unknown field name
};

// The element types that a header may have: those whose tensors can be read, or all of the format.
enum class ElementTypes { readable, all };

// Whether tensors of this dtype can be read.
bool can_read_elements(std::string_view dtype);

// Checks everything but the tensors' bytes; the entries must cover `data_bytes` without gaps or
// overlap. Error: ErrorKind::input, beginning with `path`; a dtype outside of `types` is one.
SafetensorsHeader parse_safetensors_header(std::string_view json, uint64_t data_bytes,
                                           const std::string& path,
                                           ElementTypes types = ElementTypes::readable);

// The JSON of a header: metadata first, sorted by key, then the entries in their order. Spaces
// before the last brace pad the length to a multiple of 8. Error: ErrorKind::usage for names or
// metadata that no reader would accept.
std::string format_safetensors_header(const std::vector<SafetensorsEntry>& entries,
                                      const std::map<std::string, std::string>& metadata);

// Any bytes as a short JSON string for messages.
std::string quoted_name(std::string_view text);

}  // namespace linea
