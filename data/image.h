// Images to look at: a grid in a PNG file, and a preview in a terminal.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace linea {

// `count` images of height x width x channels bytes (1: gray, 3: RGB), one after another, and how
// they are laid out: `columns` in a row, each pixel scale x scale, with a dark line of `gap`
// between.
struct ImageGrid {
  int64_t count = 0, height = 0, width = 0, channels = 1;
  int64_t columns = 8, scale = 1, gap = 1;
};

// Whole or not at all: a write error leaves nothing under `path`.
void write_png_grid(const std::filesystem::path& path, const std::vector<uint8_t>& pixels,
                    const ImageGrid& grid);

// Lines of half blocks, two pixel rows each, in 24-bit ANSI colors, at most `max_width` characters
// wide: it puts fewer images in a row than grid.columns, or thins out a image that is too wide.
std::string terminal_preview(const std::vector<uint8_t>& pixels, const ImageGrid& grid,
                             int64_t max_width);

}  // namespace linea
