// Grids of images: as a PNG file, and as a preview in a terminal.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace linea {

// The colors of the values 0 to `max`, shown in a PNG below the images with numbers.
struct ColorScale {
  std::vector<uint8_t> colors;  // RGB, evenly spaced
  double max = 1;
  std::string unit;  // in letters of data/font.h
};

// The layout of `count` consecutive images of height x width x channels bytes (1: gray, 3: RGB):
// `columns` per row, each pixel enlarged to scale x scale, with a dark line of `gap` pixels
// between.
struct ImageGrid {
  int64_t count = 0, height = 0, width = 0, channels = 1;
  int64_t columns = 8, scale = 1, gap = 1;
  // Shown in a PNG alone.
  std::vector<std::string> captions{};      // above the columns, in letters of data/font.h
  std::optional<ColorScale> color_scale{};  // of images with three channels
  bool few_colors = false;                  // smaller without PNG's differences of neighbors
};

// Error: ErrorKind::usage, a grid of more pixels than an image that can be read.
void check_size(const ImageGrid& grid);

// The bytes of a PNG file.
std::string png_grid(const std::vector<uint8_t>& pixels, const ImageGrid& grid);
// Atomically: a write error leaves nothing under `path`.
void write_png_grid(const std::filesystem::path& path, const std::vector<uint8_t>& pixels,
                    const ImageGrid& grid);

// Lines of half blocks, two pixel rows each, in 24-bit ANSI colors, at most `max_width` characters
// wide, with fewer images per row than grid.columns if needed; an image that is too wide is
// subsampled.
std::string terminal_preview(const std::vector<uint8_t>& pixels, const ImageGrid& grid,
                             int64_t max_width);

}  // namespace linea
