#include "data/safetensors.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <limits>
#include <memory>

#include "base/error.h"
#include "data/files.h"

namespace linea {
namespace {

static_assert(std::endian::native == std::endian::little,
              "safetensors stores little-endian numbers, which are copied unchanged");

constexpr uint64_t kSizeBytes = 8;  // of the header size at the start of the file

// A file open for reading.
class OpenFile {
 public:
  explicit OpenFile(const std::filesystem::path& path)
      : path_(path.string()), descriptor_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    if (descriptor_ < 0)
      fail(ErrorKind::input, "{}: cannot be opened: {}; check its permissions", path_,
           std::strerror(errno));
  }
  ~OpenFile() { close(descriptor_); }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  void read(uint64_t offset, void* to, size_t count) const {
    char* next = static_cast<char*>(to);
    while (count > 0) {
      const ssize_t got = pread(descriptor_, next, count, static_cast<off_t>(offset));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0)
        fail(ErrorKind::input, "{}: cannot be read: {}; check its disk", path_,
             std::strerror(errno));
      if (got == 0)
        fail(ErrorKind::input,
             "{}: ends at byte {}, {} too early: it was truncated while it was read", path_, offset,
             count);
      next += got;
      offset += static_cast<uint64_t>(got);
      count -= static_cast<size_t>(got);
    }
  }

 private:
  std::string path_;
  int descriptor_;
};

// 1 sign, 5 exponent (bias 15) and 10 mantissa bits -> the bits of the same float, NaN's included.
uint32_t f16_to_float_bits(uint16_t half) {
  const uint32_t sign = uint32_t{half & 0x8000u} << 16;
  const uint32_t exponent = (half >> 10) & 0x1Fu, mantissa = half & 0x3FFu;
  if (exponent == 0x1F) return sign | 0x7F800000u | mantissa << 13;
  // Subnormal: a multiple of 2^-24, which a float holds exactly.
  if (exponent == 0) return sign | std::bit_cast<uint32_t>(static_cast<float>(mantissa) * 0x1p-24f);
  return sign | (exponent + 127 - 15) << 23 | mantissa << 13;
}

uint32_t bf16_to_float_bits(uint16_t upper_half) { return uint32_t{upper_half} << 16; }

// A tensor of dtype `dtype` with the elements of `bytes`, of type From, each passed through
// convert.
template <typename From, typename Convert>
Tensor converted(const std::vector<char>& bytes, const Shape& shape, DType dtype, Convert convert) {
  using To = decltype(convert(From{}));
  std::vector<To> values(static_cast<size_t>(shape.numel()));
  for (size_t i = 0; i < values.size(); ++i) {
    From element;
    std::memcpy(&element, bytes.data() + i * sizeof(From), sizeof(From));
    values[i] = convert(element);
  }
  Tensor result(shape, dtype);
  if (!values.empty()) result.write(values.data());
  return result;
}

Tensor copied(const std::vector<char>& bytes, const Shape& shape, DType dtype) {
  Tensor result(shape, dtype);
  if (!bytes.empty()) result.write(bytes.data());
  return result;
}

const char* file_dtype(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return "F32";
    case DType::f64:
      return "F64";
    case DType::i32:
      return "I32";
    case DType::bf16:
      return "BF16";
  }
  return "?";
}

}  // namespace

SafetensorsFile::SafetensorsFile(std::string path, uint64_t file_bytes, ReadBytes read_bytes,
                                 ElementTypes types)
    : path_(std::move(path)), read_bytes_(std::move(read_bytes)) {
  constexpr char kHint[] = "the file is truncated or not a safetensors file: write it again";
  if (file_bytes < kSizeBytes)
    fail(ErrorKind::input, "{}: has {} bytes, fewer than the {} of its header size; {}", path_,
         file_bytes, kSizeBytes, kHint);
  uint64_t header_bytes = 0;
  read_bytes_(0, &header_bytes, kSizeBytes);
  if (header_bytes > kMaxSafetensorsHeader)
    fail(ErrorKind::input, "{}: declares a header of {} bytes, more than the {} allowed; {}", path_,
         header_bytes, kMaxSafetensorsHeader, kHint);
  if (header_bytes > file_bytes - kSizeBytes)
    fail(ErrorKind::input, "{}: declares a header of {} bytes, but {} bytes follow; {}", path_,
         header_bytes, file_bytes - kSizeBytes, kHint);
  data_begin_ = kSizeBytes + header_bytes;
  std::string text(header_bytes, '\0');
  read_bytes_(kSizeBytes, text.data(), text.size());
  header_ = parse_safetensors_header(text, file_bytes - data_begin_, path_, types);
  for (size_t i = 0; i < header_.entries.size(); ++i) index_[header_.entries[i].name] = i;
}

SafetensorsFile SafetensorsFile::open(const std::filesystem::path& path, ElementTypes types) {
  // Checked before opening: opening a pipe would wait for its writer.
  const auto size = static_cast<uint64_t>(plain_file_size(path));
  const auto file = std::make_shared<OpenFile>(path);
  return {path.string(), size,
          [file](uint64_t offset, void* to, size_t count) { file->read(offset, to, count); },
          types};
}

SafetensorsFile SafetensorsFile::parse(std::string bytes, const std::string& name) {
  const size_t size = bytes.size();
  const auto shared = std::make_shared<const std::string>(std::move(bytes));
  return {name, size,
          [shared](uint64_t offset, void* to, size_t count) {
            if (count > 0) std::memcpy(to, shared->data() + offset, count);
          },
          ElementTypes::readable};
}

const SafetensorsEntry& SafetensorsFile::entry(const std::string& name) const {
  const auto found = index_.find(name);
  if (found == index_.end())
    fail(ErrorKind::input, "{}: has no tensor {} among its {}; check that it is the right file",
         path_, quoted_name(name), entries().size());
  return entries()[found->second];
}

Tensor SafetensorsFile::read(const std::string& name) const {
  const SafetensorsEntry& from = entry(name);
  if (!can_read_elements(from.dtype))
    fail(ErrorKind::input, "{}: tensor {} has the dtype {}, which cannot be read; convert the file",
         path_, quoted_name(name), from.dtype);
  if (from.shape.size() > kMaxRank)
    fail(ErrorKind::input, "{}: tensor {} has {} axes, at most {} can be read; reshape it first",
         path_, quoted_name(name), from.shape.size(), kMaxRank);
  const Shape shape(from.shape);
  std::vector<char> bytes(from.end - from.begin);
  read_bytes_(data_begin_ + from.begin, bytes.data(), bytes.size());
  if (from.dtype == "F32") return copied(bytes, shape, DType::f32);
  if (from.dtype == "F64") return copied(bytes, shape, DType::f64);
  if (from.dtype == "I32") return copied(bytes, shape, DType::i32);
  if (from.dtype == "F16") return converted<uint16_t>(bytes, shape, DType::f32, f16_to_float_bits);
  if (from.dtype == "BF16")
    return converted<uint16_t>(bytes, shape, DType::f32, bf16_to_float_bits);
  const auto to_i32 = [&](int64_t value) {
    if (value != static_cast<int32_t>(value))
      fail(ErrorKind::input, "{}: tensor {} holds {}, which 32 bits cannot; convert it to F64",
           path_, quoted_name(name), value);
    return static_cast<int32_t>(value);
  };
  if (from.dtype == "I64") return converted<int64_t>(bytes, shape, DType::i32, to_i32);
  const auto to_flag = [&](uint8_t value) {
    if (value > 1)
      fail(ErrorKind::input, "{}: tensor {} is BOOL and holds {}, neither 0 nor 1; write it as U8",
           path_, quoted_name(name), value);
    return int32_t{value};
  };
  if (from.dtype == "BOOL") return converted<uint8_t>(bytes, shape, DType::i32, to_flag);
  return converted<uint8_t>(bytes, shape, DType::i32, to_i32);  // U8
}

WrittenFile write_safetensors(const std::filesystem::path& path,
                              const std::vector<NamedTensor>& tensors,
                              const std::map<std::string, std::string>& metadata) {
  std::vector<SafetensorsEntry> entries;
  uint64_t end = 0;
  for (const auto& [name, tensor] : tensors) {
    require(tensor.defined(), "tensor {} is undefined and cannot be written to {}",
            quoted_name(name), path.string());
    const uint64_t begin = end;
    end += tensor.bytes();
    entries.push_back({name, file_dtype(tensor.dtype()), tensor.shape().sizes(), begin, end});
  }
  const std::string header = format_safetensors_header(entries, metadata);
  const uint64_t header_bytes = header.size();
  AtomicFile file(path);
  file.write(&header_bytes, sizeof(header_bytes));
  file.write(header);
  std::vector<char> bytes;
  for (const auto& [name, tensor] : tensors) {
    bytes.resize(tensor.bytes());
    if (!bytes.empty()) tensor.read(bytes.data());
    file.write(bytes.data(), bytes.size());
  }
  return file.commit();
}

}  // namespace linea
