// Tensors in safetensors files: an 8-byte little-endian header size, a JSON header, the tensors'
// bytes. Reading is strict, and a tensor's data is read on request.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "data/files.h"
#include "data/safetensors_header.h"
#include "tensor/tensor.h"

namespace linea {

// An open file with its checked header. Every error is ErrorKind::input and begins with the path.
class SafetensorsFile {
 public:
  static SafetensorsFile open(const std::filesystem::path& path,
                              ElementTypes types = ElementTypes::readable);
  // Reads a file's bytes in memory; errors begin with `name`.
  static SafetensorsFile parse(std::string bytes, const std::string& name = "bytes");

  // Sorted by position in the file (begin, end, then name).
  const std::vector<SafetensorsEntry>& entries() const { return header_.entries; }
  const std::map<std::string, std::string>& metadata() const { return header_.metadata; }
  // Unknown fields, which are ignored: one line for each field name.
  const std::vector<std::string>& warnings() const { return header_.warnings; }
  bool contains(const std::string& name) const { return index_.count(name) != 0; }
  const SafetensorsEntry& entry(const std::string& name) const;

  // F32 -> f32, F64 -> f64, I32, I64, U8 and BOOL -> i32, F16 and BF16 -> f32, all exactly. Errors:
  // no such tensor, an element type that cannot be read, more than kMaxRank axes, an I64 beyond 32
  // bits, a BOOL other than 0 and 1.
  Tensor read(const std::string& name) const;

 private:
  // Copies `count` bytes from `offset` in the file.
  using ReadBytes = std::function<void(uint64_t offset, void* to, size_t count)>;
  SafetensorsFile(std::string path, uint64_t file_bytes, ReadBytes read_bytes, ElementTypes types);

  std::string path_;
  ReadBytes read_bytes_;
  uint64_t data_begin_ = 0;
  SafetensorsHeader header_;
  std::map<std::string, size_t> index_;  // by name, into entries()
};

// Atomically writes the tensors in the given order as F32, F64 and I32, the data at a multiple of 8
// bytes. Errors: ErrorKind::usage for names or metadata that cannot be written, ErrorKind::write
// for the disk.
WrittenFile write_safetensors(const std::filesystem::path& path,
                              const std::vector<NamedTensor>& tensors,
                              const std::map<std::string, std::string>& metadata = {});

}  // namespace linea
