// A PNG is a list of chunks: length, type, content and checksum.
#include <zlib.h>

#include "base/error.h"
#include "data/one_line.h"
#include "data/readers/gzip.h"
#include "data/readers/image_header.h"

namespace linea {
namespace {

constexpr size_t kChunkFrame = 12;  // length, type and checksum, four bytes each
constexpr size_t kFirstTypeOffset = 12, kWidthOffset = 16, kHeightOffset = 20, kDepthOffset = 24,
                 kColorOffset = 25;
constexpr size_t kGray = 0, kRgb = 2, kPalette = 3, kGrayAlpha = 4, kRgbAlpha = 6;
constexpr size_t kPaletteEntry = 3, kPaletteBytes = 256 * kPaletteEntry;  // RGB; at most

size_t big_endian(const std::string& bytes, size_t position) {
  size_t number = 0;
  for (size_t i = position; i < position + 4; ++i) number = number << 8 | byte_at(bytes, i);
  return number;
}

ImageHeader read_header(const std::string& bytes, const std::string& name) {
  if (bytes.size() < kColorOffset + 1)
    fail_damaged(name, fmt::format("the PNG has {} bytes", bytes.size()));
  if (bytes.compare(kFirstTypeOffset, 4, "CgBI") == 0)
    fail_unsupported(name, "a PNG in Apple's own form (CgBI), as Xcode packs it into apps");
  if (bytes.compare(kFirstTypeOffset, 4, "IHDR") != 0)
    fail_damaged(name, "the PNG does not begin with IHDR");
  return {static_cast<int64_t>(big_endian(bytes, kWidthOffset)),
          static_cast<int64_t>(big_endian(bytes, kHeightOffset))};
}

// Bits of a pixel. stb would decode combinations that do not exist.
size_t check_form(const std::string& bytes, const std::string& name) {
  const size_t depth = byte_at(bytes, kDepthOffset), color = byte_at(bytes, kColorOffset);
  const bool small = depth == 1 || depth == 2 || depth == 4, large = depth == 8 || depth == 16;
  const bool exists = color == kGray      ? small || large
                      : color == kPalette ? small || depth == 8
                                          : large;
  if (!exists || (color != kGray && color != kRgb && color != kPalette && color != kGrayAlpha &&
                  color != kRgbAlpha))
    fail_damaged(name, fmt::format("a PNG has no color type {} of {} bits", color, depth));
  return depth * (color == kRgb ? 3 : color == kGrayAlpha ? 2 : color == kRgbAlpha ? 4 : 1);
}

// A chunk that the decoding of pixels depends on: the position of the first chunk of its type, 0
// for none, and its length.
struct Chunk {
  size_t position = 0, length = 0;
};
struct Chunks {
  Chunk palette, transparency, exif;
};

void keep(Chunk& chunk, const Chunk& found) {
  if (chunk.position == 0) chunk = found;
}

// stb does not verify checksums and would decode damaged bytes.
Chunks check_chunks(const std::string& bytes, const std::string& name) {
  Chunks chunks;
  size_t position = kPngStart.size();
  std::string type;
  while (type != "IEND") {
    const size_t left = bytes.size() - position;
    if (left < kChunkFrame || big_endian(bytes, position) > left - kChunkFrame)
      fail_damaged(name, fmt::format("the PNG has {} bytes and ends inside a chunk", bytes.size()));
    const Chunk chunk{position, big_endian(bytes, position)};
    type = bytes.substr(position + 4, 4);
    const auto* checked = reinterpret_cast<const Bytef*>(bytes.data() + position + 4);
    if (crc32(0, checked, static_cast<uInt>(chunk.length + 4)) !=
        big_endian(bytes, position + 8 + chunk.length))
      fail_damaged(name, fmt::format("wrong checksum of the chunk at byte {}", position));
    const bool critical = (type[0] & 0x20) == 0;
    if (critical && type != "IHDR" && type != "PLTE" && type != "IDAT" && type != "IEND")
      fail_unsupported(name, fmt::format("a PNG with chunks of type '{}'", one_line(type)));
    if (type == "PLTE" && chunks.palette.position != 0)
      fail_damaged(name, "the PNG has two palettes");
    if (type == "PLTE") keep(chunks.palette, chunk);
    if (type == "tRNS") keep(chunks.transparency, chunk);
    if (type == "eXIf") keep(chunks.exif, chunk);
    position += kChunkFrame + chunk.length;
  }
  return chunks;
}

// libpng compares the bits of the depth alone.
void mask_transparent_gray(std::string& bytes, const Chunk& transparency) {
  const size_t depth = byte_at(bytes, kDepthOffset), low = transparency.position + 9;
  if (byte_at(bytes, kColorOffset) == kGray && depth < 8 && transparency.length == 2)
    bytes[low] = static_cast<char>(byte_at(bytes, low) & ((size_t{1} << depth) - 1));
}

// Black for an index beyond the palette, as libpng has it; stb would read what is in memory. The
// chunk's checksum becomes wrong.
void fill_palette(std::string& bytes, const Chunk& palette) {
  for (size_t i = 0; i < 4; ++i)
    bytes[palette.position + i] = static_cast<char>(kPaletteBytes >> (8 * (3 - i)) & 0xFF);
  bytes.insert(palette.position + 8 + palette.length, kPaletteBytes - palette.length, '\0');
}

}  // namespace

ImageHeader check_png(std::string& bytes, const std::string& name) {
  ImageHeader header = read_header(bytes, name);
  check_image_size(header, name);
  const Chunks chunks = check_chunks(bytes, name);
  const auto bits = static_cast<int64_t>(check_form(bytes, name));
  check_encoded_size(header, name, header.width * header.height * bits / 8 / kMaxExpansion, bytes);
  if (chunks.exif.position != 0)
    header.orientation = exif_orientation(
        std::string_view(bytes).substr(chunks.exif.position + 8, chunks.exif.length));
  if (chunks.transparency.position != 0) mask_transparent_gray(bytes, chunks.transparency);
  if (byte_at(bytes, kColorOffset) == kPalette && chunks.palette.position != 0) {
    const Chunk& palette = chunks.palette;
    if (palette.length % kPaletteEntry != 0 || palette.length == 0 ||
        palette.length > kPaletteBytes)
      fail_damaged(name, fmt::format("the PNG's palette has {} bytes", palette.length));
    if (chunks.transparency.length > palette.length / kPaletteEntry)
      fail_damaged(name, "the PNG has transparent colors beyond its palette");
    fill_palette(bytes, palette);
  }
  return header;
}

}  // namespace linea
