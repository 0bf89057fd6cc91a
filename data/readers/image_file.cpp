#include "data/readers/image_file.h"

#define STBI_NO_STDIO
#include <stb/stb_image.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string_view>
#include <utility>

#include "data/files.h"
#include "data/image_set.h"
#include "data/one_line.h"
#include "tensor/error.h"

namespace linea {
namespace {

constexpr std::string_view kPngStart("\x89PNG\r\n\x1a\n", 8);
constexpr std::string_view kJpegStart("\xff\xd8\xff", 3);
constexpr size_t kChunkFrame = 12;  // of a PNG chunk: length, type and checksum, four bytes each

// An image as decoded by stb: rows of `width` pixels of 1 (gray), 2 (gray, alpha), 3 (RGB) or 4
// (RGB, alpha) bytes.
struct Decoded {
  std::unique_ptr<uint8_t, void (*)(void*)> bytes{nullptr, stbi_image_free};
  int64_t width = 0, height = 0, channels = 0;
};

[[noreturn]] void fail_damaged(const std::string& name, const std::string& reason) {
  fail(ErrorKind::input, "{}: is truncated or damaged ({}); replace it or leave it out", name,
       one_line(reason));
}

size_t big_endian(const std::string& bytes, size_t position) {
  size_t number = 0;
  for (size_t i = position; i < position + 4; ++i)
    number = number << 8 | static_cast<unsigned char>(bytes[i]);
  return number;
}

// stb does not verify checksums and would decode damaged bytes.
void check_png(const std::string& bytes, const std::string& name) {
  size_t position = kPngStart.size();
  std::string kind;
  while (kind != "IEND") {
    const size_t left = bytes.size() - position;
    if (left < kChunkFrame || big_endian(bytes, position) > left - kChunkFrame)
      fail_damaged(name, fmt::format("the PNG has {} bytes and ends inside a chunk", bytes.size()));
    const size_t length = big_endian(bytes, position);
    kind = bytes.substr(position + 4, 4);
    const auto* checked = reinterpret_cast<const Bytef*>(bytes.data() + position + 4);
    if (crc32(0, checked, static_cast<uInt>(length + 4)) !=
        big_endian(bytes, position + 8 + length))
      fail_damaged(name, fmt::format("wrong checksum of the chunk at byte {}", position));
    position += kChunkFrame + length;
  }
}

// A bit for each defined Huffman table: class (0: DC, 1: AC) * 4 + number.
using HuffmanTables = uint32_t;
HuffmanTables table_bit(size_t table_class, size_t number) {
  return number < 4 && table_class < 2 ? 1u << (table_class * 4 + number) : 0;
}

// The Huffman tables of the segment at `position`. stb writes out of bounds for a table of more
// than 256 codes.
HuffmanTables check_huffman_tables(const std::string& bytes, size_t position,
                                   const std::string& name) {
  constexpr size_t kCounts = 16, kMaxCodes = 256;  // codes of 1 to 16 bits
  const auto at = [&bytes](size_t index) {
    return static_cast<size_t>(static_cast<unsigned char>(bytes[index]));
  };
  const size_t end =
      std::min(bytes.size(), position + 2 + (at(position + 2) << 8 | at(position + 3)));
  size_t table = position + 4;
  HuffmanTables found = 0;
  while (table < end) {
    size_t codes = 0;
    if (end - table > kCounts)
      for (size_t i = 1; i <= kCounts; ++i) codes += at(table + i);
    if (end - table <= kCounts || codes > kMaxCodes || codes > end - table - kCounts - 1)
      fail_damaged(name,
                   fmt::format("the JPEG's Huffman table at byte {} has the wrong size", table));
    found |= table_bit(at(table) >> 4, at(table) & 15);
    table += 1 + kCounts + codes;
  }
  return found;
}

// Checks that the Huffman tables of the scan at `position` are defined. A scan of a progressive
// JPEG has DC coefficients alone, whose refinement needs no table, or AC coefficients alone.
void check_scan(const std::string& bytes, size_t position, bool progressive, HuffmanTables tables,
                const std::string& name) {
  const auto at = [&bytes](size_t index) {
    return static_cast<size_t>(static_cast<unsigned char>(bytes[index]));
  };
  if (position + 4 >= bytes.size()) return;  // refused later: no end marker
  const size_t components = at(position + 4), spectrum = position + 5 + 2 * components;
  if (spectrum + 2 >= bytes.size()) return;
  const bool dc = !progressive || (at(spectrum) == 0 && at(spectrum + 2) >> 4 == 0);
  const bool ac = !progressive || at(spectrum) != 0;
  for (size_t i = 0; i < components; ++i) {
    const size_t numbers = at(position + 6 + 2 * i);
    const HuffmanTables needed =
        (dc ? table_bit(0, numbers >> 4) : 0) | (ac ? table_bit(1, numbers & 15) : 0);
    if ((tables & needed) != needed)
      fail_damaged(name, fmt::format("the JPEG's scan at byte {} has no Huffman table", position));
  }
}

// stb fills the missing end of a JPEG with gray. Segments (0xFF, marker, length, ...) are skipped
// one by one, because one may embed a thumbnail with an end marker of its own; coded data may
// follow each, where 0xFF is followed by 0 or a restart marker.
void check_jpeg(const std::string& bytes, const std::string& name) {
  const auto at = [&bytes](size_t position) { return static_cast<unsigned char>(bytes[position]); };
  constexpr int kEnd = 0xD9, kTables = 0xC4, kScan = 0xDA, kProgressive = 0xC2, kRestart = 0xD0,
                kRestarts = 8;
  size_t position = 2;
  bool progressive = false;
  HuffmanTables tables = 0;
  while (position + 1 < bytes.size()) {
    const int marker = at(position) == 0xFF ? at(position + 1) : 0;
    if (marker == kEnd) return;
    const bool is_segment =
        marker != 0 && marker != 0xFF && (marker < kRestart || marker >= kRestart + kRestarts);
    if (!is_segment) {
      ++position;
      continue;
    }
    if (position + 3 >= bytes.size()) break;
    if (marker == kTables) tables |= check_huffman_tables(bytes, position, name);
    progressive = progressive || marker == kProgressive;
    if (marker == kScan) check_scan(bytes, position, progressive, tables, name);
    position += 2 + static_cast<size_t>(at(position + 2) << 8 | at(position + 3));
  }
  fail_damaged(name, fmt::format("the JPEG has {} bytes and no end marker", bytes.size()));
}

// Width and height from the header alone.
std::pair<int64_t, int64_t> image_size(const std::string& bytes, const std::string& name) {
  if (bytes.starts_with(kPngStart)) {  // stb does not report the size of an image that it refuses
    constexpr size_t kWidth = 16, kHeight = 20;
    if (bytes.size() < kHeight + 4)
      fail_damaged(name, fmt::format("the PNG has {} bytes", bytes.size()));
    if (bytes.compare(kWidth - 4, 4, "IHDR") != 0)
      fail_damaged(name, "the PNG does not begin with IHDR");
    return {big_endian(bytes, kWidth), big_endian(bytes, kHeight)};
  }
  int width = 0, height = 0, channels = 0;
  const auto* data = reinterpret_cast<const stbi_uc*>(bytes.data());
  if (stbi_info_from_memory(data, static_cast<int>(bytes.size()), &width, &height, &channels) == 0)
    fail_damaged(name, "the JPEG's header cannot be read");
  return {width, height};
}

// Refuses an image size that the file's bytes cannot encode, before memory is allocated for it.
void check_size(const std::string& bytes, const std::string& name, int64_t width, int64_t height,
                bool is_png) {
  constexpr int64_t kMaxExpansion = 1032;  // of deflate: 258 bytes from two bits
  constexpr int64_t kMaxJpegPixels =
      1024;  // per byte: 8 codes, each of 8 x 32 pixels, for two components
  constexpr size_t kDepth = 24, kColor = 25;
  int64_t min = width * height / kMaxJpegPixels;
  if (is_png && bytes.size() > kColor) {
    const auto at = [&bytes](size_t index) {
      return int64_t{static_cast<unsigned char>(bytes[index])};
    };
    const int64_t channels = at(kColor) == 2 ? 3 : at(kColor) == 4 ? 2 : at(kColor) == 6 ? 4 : 1;
    min = width * height * channels * at(kDepth) / 8 / kMaxExpansion;
  }
  if (min > static_cast<int64_t>(bytes.size()))
    fail_damaged(name, fmt::format("{} x {} pixels cannot be encoded in its {} bytes", width,
                                   height, bytes.size()));
}

Decoded decode(const std::string& bytes, const std::string& name) {
  const bool is_png = bytes.starts_with(kPngStart);
  if (!is_png && !bytes.starts_with(kJpegStart))
    fail(ErrorKind::input, "{}: is neither a PNG nor a JPEG file; convert it to one of them", name);
  if (!is_png) check_jpeg(bytes, name);
  const auto [declared_width, declared_height] = image_size(bytes, name);
  if (declared_width > kMaxImagePixels || declared_width * declared_height > kMaxImagePixels)
    fail(ErrorKind::input,
         "{}: is an image of {} x {} pixels, at most {} are supported; make it smaller", name,
         declared_width, declared_height, kMaxImagePixels);
  if (is_png) check_png(bytes, name);
  check_size(bytes, name, declared_width, declared_height, is_png);
  int width = 0, height = 0, channels = 0;
  Decoded decoded;
  decoded.bytes.reset(stbi_load_from_memory(reinterpret_cast<const stbi_uc*>(bytes.data()),
                                            static_cast<int>(bytes.size()), &width, &height,
                                            &channels, 0));
  if (!decoded.bytes) fail_damaged(name, stbi_failure_reason());
  decoded.width = width;
  decoded.height = height;
  decoded.channels = channels;
  return decoded;
}

// c' = c * alpha + white * (1 - alpha), alpha = a / 255
uint8_t on_white(int color, int alpha) {
  return static_cast<uint8_t>((color * alpha + 255 * (255 - alpha) + 127) / 255);
}

// The central square, edge x edge x channels bytes.
std::vector<uint8_t> crop(const Decoded& image, int64_t edge, int64_t channels) {
  const int64_t top = (image.height - edge) / 2, left = (image.width - edge) / 2;
  const bool has_alpha = image.channels % 2 == 0, is_gray = image.channels <= 2;
  std::vector<uint8_t> pixels(static_cast<size_t>(edge * edge * channels));
  uint8_t* out = pixels.data();
  for (int64_t row = 0; row < edge; ++row) {
    const uint8_t* pixel = image.bytes.get() + ((top + row) * image.width + left) * image.channels;
    for (int64_t column = 0; column < edge; ++column, pixel += image.channels, out += channels) {
      const int alpha = has_alpha ? pixel[image.channels - 1] : 255;
      std::array<uint8_t, 3> rgb{};
      for (size_t i = 0; i < 3; ++i) rgb[i] = on_white(pixel[is_gray ? 0 : i], alpha);
      if (channels == 1)
        *out = luma(rgb[0], rgb[1], rgb[2]);
      else
        std::copy(rgb.begin(), rgb.end(), out);
    }
  }
  return pixels;
}

// The old pixels [first, last] that new pixel `index` covers, and the `overlap` with each. The unit
// is 1 / side of an old pixel, so that lengths are integers: an old pixel is `side` long, a new one
// `edge`.
struct Cover {
  int64_t side, edge, index;
  int64_t first() const { return index * edge / side; }
  int64_t last() const { return ((index + 1) * edge - 1) / side; }
  int64_t overlap(int64_t old) const {
    return std::min((old + 1) * side, (index + 1) * edge) - std::max(old * side, index * edge);
  }
};

// new = sum over the covered old pixels of old * height of overlap * width of overlap / edge^2
std::vector<uint8_t> resize(const std::vector<uint8_t>& old, int64_t edge, int64_t side,
                            int64_t channels) {
  std::vector<uint8_t> pixels;
  pixels.reserve(static_cast<size_t>(side * side * channels));
  std::vector<int64_t> sums(
      static_cast<size_t>(edge * channels));  // over the rows, for each old column
  for (int64_t row = 0; row < side; ++row) {
    const Cover rows{side, edge, row};
    std::fill(sums.begin(), sums.end(), 0);
    for (int64_t y = rows.first(); y <= rows.last(); ++y) {
      const uint8_t* line = old.data() + y * edge * channels;
      const int64_t height = rows.overlap(y);
      for (size_t i = 0; i < sums.size(); ++i) sums[i] += height * line[i];
    }
    for (int64_t column = 0; column < side; ++column)
      for (int64_t channel = 0; channel < channels; ++channel) {
        const Cover columns{side, edge, column};
        int64_t sum = 0;
        for (int64_t x = columns.first(); x <= columns.last(); ++x)
          sum += columns.overlap(x) * sums[static_cast<size_t>(x * channels + channel)];
        pixels.push_back(static_cast<uint8_t>((sum + edge * edge / 2) / (edge * edge)));
      }
  }
  return pixels;
}

}  // namespace

std::vector<uint8_t> decode_image(const std::string& bytes, const std::string& name, int64_t side,
                                  int64_t channels) {
  require(side >= 1 && side <= kMaxImageSide, "{}: an image of side {}; choose 1 to {}", name, side,
          kMaxImageSide);
  require(channels == 1 || channels == 3, "{}: an image of {} channels; choose 1 (gray) or 3 (RGB)",
          name, channels);
  const Decoded image = decode(bytes, name);
  const int64_t edge = std::min(image.width, image.height);
  std::vector<uint8_t> square = crop(image, edge, channels);
  return edge == side ? square : resize(square, edge, side, channels);
}

std::vector<uint8_t> read_image(const std::filesystem::path& path, int64_t side, int64_t channels) {
  return decode_image(read_file(path, kMaxImageBytes), path.string(), side, channels);
}

}  // namespace linea
