#include "data/image.h"

#define STBI_WRITE_NO_STDIO
#include <stb/stb_image_write.h>

#include <algorithm>
#include <cmath>
#include <mutex>

#include "base/error.h"
#include "base/scoped.h"
#include "data/files.h"
#include "data/font.h"
#include "data/readers/image_file.h"

namespace linea {
namespace {

constexpr uint8_t kGapGray = 64, kTextGray = 230;
constexpr int64_t kTextGap = 3, kLineHeight = kGlyphHeight + 2 * kTextGap;
constexpr int64_t kScaleHeight = 8;                   // of the strip of a color scale
constexpr int64_t kMaxSheetBytes = int64_t{1} << 28;  // stb counts in int

struct Sheet {
  int64_t height = 0, width = 0, channels = 0;
  std::vector<uint8_t> bytes;

  const uint8_t* pixel(int64_t row, int64_t column) const {
    return bytes.data() + (row * width + column) * channels;
  }
  uint8_t* pixel(int64_t row, int64_t column) {
    return bytes.data() + (row * width + column) * channels;
  }
  // Empty rows at the top or the bottom.
  void add_rows(bool at_top, int64_t rows) {
    const auto count = static_cast<size_t>(rows * width * channels);
    bytes.insert(at_top ? bytes.begin() : bytes.end(), count, kGapGray);
    height += rows;
  }
};

// Centered at `center` as far as the sheet is wide enough.
void write_text(Sheet& sheet, int64_t top, int64_t center, const std::string& text) {
  const int64_t last = std::max<int64_t>(sheet.width - text_width(text), 0);
  int64_t left = std::clamp<int64_t>(center - text_width(text) / 2, 0, last);
  for (const char character : text) {
    const auto rows = glyph(character);
    for (int64_t y = 0; y < kGlyphHeight; ++y)
      for (int64_t x = 0; x < kGlyphWidth && left + x < sheet.width; ++x)
        if ((rows[static_cast<size_t>(y)] >> (kGlyphWidth - 1 - x) & 1) != 0)
          std::fill_n(sheet.pixel(top + y, left + x), sheet.channels, kTextGray);
    left += kGlyphAdvance;
  }
}

void add_captions(Sheet& sheet, const ImageGrid& grid) {
  sheet.add_rows(true, kLineHeight);
  const int64_t cell = grid.width * grid.scale + grid.gap;
  for (size_t i = 0; i < grid.captions.size(); ++i) {
    if (text_width(grid.captions[i]) > cell) continue;  // would cover its neighbors
    write_text(sheet, kTextGap, static_cast<int64_t>(i) * cell + (cell - grid.gap) / 2,
               grid.captions[i]);
  }
}

// A strip of all colors, a number at each whole value, and the unit.
void add_color_scale(Sheet& sheet, const ColorScale& scale) {
  const int64_t strip = sheet.height + kTextGap;
  sheet.add_rows(false, kTextGap + kScaleHeight + 2 * kLineHeight);
  const auto colors = static_cast<int64_t>(scale.colors.size() / 3);
  for (int64_t x = 0; x < sheet.width; ++x) {
    const int64_t color = x * (colors - 1) / std::max<int64_t>(1, sheet.width - 1);
    for (int64_t y = strip; y < strip + kScaleHeight; ++y)
      std::copy_n(scale.colors.data() + 3 * color, 3, sheet.pixel(y, x));
  }
  for (int64_t value = 0; static_cast<double>(value) <= scale.max; ++value) {
    const double column = static_cast<double>(value * (sheet.width - 1)) / scale.max;
    write_text(sheet, strip + kScaleHeight + kTextGap, std::lround(column), std::to_string(value));
  }
  write_text(sheet, strip + kScaleHeight + kLineHeight + kTextGap, sheet.width / 2, scale.unit);
}

void check(const std::vector<uint8_t>& pixels, const ImageGrid& grid) {
  require(grid.count >= 1 && grid.height >= 1 && grid.width >= 1 && grid.columns >= 1 &&
              grid.scale >= 1 && grid.gap >= 0 && (grid.channels == 1 || grid.channels == 3),
          "a grid of {} images of {} x {} x {} (1 or 3 channels), {} columns, scale {}, gap {}",
          grid.count, grid.height, grid.width, grid.channels, grid.columns, grid.scale, grid.gap);
  const int64_t bytes = grid.count * grid.height * grid.width * grid.channels;
  require(static_cast<int64_t>(pixels.size()) == bytes,
          "{} bytes of pixels, but {} images of {} x {} x {} have {}", pixels.size(), grid.count,
          grid.height, grid.width, grid.channels, bytes);
  require(!grid.color_scale || (grid.channels == 3 && grid.color_scale->colors.size() >= 3 &&
                                grid.color_scale->max > 0 && grid.color_scale->max <= 64),
          "a color scale needs images with 3 channels, a color and a maximum of 64 at most");
}

Sheet lay_out(const std::vector<uint8_t>& pixels, const ImageGrid& grid) {
  check(pixels, grid);
  const int64_t columns = std::min(grid.columns, grid.count);
  const int64_t lines = (grid.count + columns - 1) / columns;
  const int64_t cell_height = grid.height * grid.scale + grid.gap;
  const int64_t cell_width = grid.width * grid.scale + grid.gap;
  Sheet sheet{lines * cell_height - grid.gap, columns * cell_width - grid.gap, grid.channels, {}};
  const int64_t bytes = sheet.height * sheet.width * sheet.channels;
  require(bytes <= kMaxSheetBytes,
          "a sheet of {} x {} pixels is too large; lay out fewer images or a smaller scale",
          sheet.height, sheet.width);
  sheet.bytes.assign(static_cast<size_t>(bytes), kGapGray);
  for (int64_t y = 0; y < sheet.height; ++y)
    for (int64_t x = 0; x < sheet.width; ++x) {
      const int64_t image = y / cell_height * columns + x / cell_width;
      const int64_t row = y % cell_height / grid.scale, column = x % cell_width / grid.scale;
      const bool in_gap = row >= grid.height || column >= grid.width;
      if (image >= grid.count || in_gap) continue;
      const int64_t source = ((image * grid.height + row) * grid.width + column) * grid.channels;
      std::copy_n(pixels.data() + source, grid.channels,
                  sheet.bytes.data() + (y * sheet.width + x) * grid.channels);
    }
  return sheet;
}

void append_bytes(void* target, void* data, int size) {
  static_cast<std::string*>(target)->append(static_cast<const char*>(data),
                                            static_cast<size_t>(size));
}

std::string ansi_color(int layer, const uint8_t* pixel, int64_t channels) {
  const uint8_t* last = pixel + channels - 1;
  return fmt::format("\x1b[{};2;{};{};{}m", layer, pixel[0], pixel[channels / 2], *last);
}

}  // namespace

// In double: a count may be any number.
void check_size(const ImageGrid& grid) {
  const auto size = [](int64_t cells, int64_t length, const ImageGrid& of) {
    return static_cast<double>(cells) * static_cast<double>(length * of.scale + of.gap);
  };
  const int64_t columns = std::min(grid.columns, grid.count);
  const double pixels =
      size(grid.count / columns + (grid.count % columns != 0), grid.height, grid) *
      size(columns, grid.width, grid);
  require(pixels <= static_cast<double>(kMaxImagePixels),
          "so many images of {} x {} pixels do not fit into one PNG of at most {} pixels at scale "
          "{}; lower `count`{}",
          grid.height, grid.width, kMaxImagePixels, grid.scale,
          grid.scale > 1 ? " or `scale`" : "");
}

std::string png_grid(const std::vector<uint8_t>& pixels, const ImageGrid& grid) {
  Sheet sheet = lay_out(pixels, grid);
  if (!grid.captions.empty()) add_captions(sheet, grid);
  if (grid.color_scale) add_color_scale(sheet, *grid.color_scale);
  std::string png;
  static std::mutex of_filter;  // which is one for all threads
  const std::lock_guard<std::mutex> lock(of_filter);
  const Scoped<int> filter(stbi_write_force_png_filter, grid.few_colors ? 0 : -1);
  const int written =
      stbi_write_png_to_func(append_bytes, &png, static_cast<int>(sheet.width),
                             static_cast<int>(sheet.height), static_cast<int>(sheet.channels),
                             sheet.bytes.data(), static_cast<int>(sheet.width * sheet.channels));
  if (written == 0) fail(ErrorKind::memory, "there is no memory to compress an image");
  return png;
}

void write_png_grid(const std::filesystem::path& path, const std::vector<uint8_t>& pixels,
                    const ImageGrid& grid) {
  write_file_atomically(path, png_grid(pixels, grid));
}

std::string terminal_preview(const std::vector<uint8_t>& pixels, const ImageGrid& grid,
                             int64_t max_width) {
  require(max_width >= 1, "a preview of width {}; choose at least 1", max_width);
  ImageGrid narrow = grid;
  narrow.scale = 1;
  const int64_t fitting = (max_width + grid.gap) / std::max<int64_t>(1, grid.width + grid.gap);
  narrow.columns = std::clamp<int64_t>(fitting, 1, std::max<int64_t>(1, grid.columns));
  const Sheet sheet = lay_out(pixels, narrow);
  const int64_t stride = (sheet.width + max_width - 1) / max_width;
  const uint8_t black[3] = {0, 0, 0};
  std::string preview;
  for (int64_t y = 0; y < sheet.height; y += 2 * stride) {
    for (int64_t x = 0; x < sheet.width; x += stride) {
      const uint8_t* lower = y + stride < sheet.height ? sheet.pixel(y + stride, x) : black;
      preview += ansi_color(38, sheet.pixel(y, x), sheet.channels);
      preview += ansi_color(48, lower, sheet.channels);
      preview += "\u2580";
    }
    preview += "\x1b[0m\n";
  }
  return preview;
}

}  // namespace linea
