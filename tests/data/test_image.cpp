#include "data/image.h"

#include <zlib.h>

#include <tuple>

#include "tests/data/data_helpers.h"
#include "tests/data/file_size_limit.h"

namespace linea {
namespace {

using ImageTest = DataTest;

uint32_t big_endian(const std::string& bytes, size_t position) {
  uint32_t value = 0;
  for (size_t i = 0; i < 4; ++i)
    value = value << 8 | static_cast<unsigned char>(bytes.at(position + i));
  return value;
}

struct Png {
  uint32_t width = 0, height = 0;
  int channels = 0;
  std::vector<uint8_t> bytes;
};

// Enough of a PNG decoder for what the writer makes: 8 bits, gray or RGB, the five line filters.
Png decode_png(const std::string& file) {
  Png png;
  EXPECT_EQ(file.substr(0, 8), "\x89PNG\r\n\x1a\n");
  std::string packed;
  for (size_t position = 8; position < file.size();) {
    const uint32_t length = big_endian(file, position);
    const std::string kind = file.substr(position + 4, 4);
    const std::string content = file.substr(position + 8, length);
    const auto* checked = reinterpret_cast<const Bytef*>(file.data() + position + 4);
    EXPECT_EQ(crc32(0, checked, length + 4), big_endian(file, position + 8 + length)) << kind;
    if (kind == "IHDR") {
      png.width = big_endian(content, 0);
      png.height = big_endian(content, 4);
      EXPECT_EQ(content[8], 8);
      png.channels = content[9] == 2 ? 3 : 1;
    }
    if (kind == "IDAT") packed += content;
    position += 12 + length;
  }
  const size_t bytes_per_pixel = static_cast<size_t>(png.channels);
  const size_t line = png.width * bytes_per_pixel;
  std::vector<uint8_t> raw(png.height * (line + 1));
  uLongf size = raw.size();
  EXPECT_EQ(
      uncompress(raw.data(), &size, reinterpret_cast<const Bytef*>(packed.data()), packed.size()),
      Z_OK);
  EXPECT_EQ(size, raw.size());
  png.bytes.resize(png.height * line);
  const auto at = [&](size_t y, size_t x) { return int{png.bytes[y * line + x]}; };
  for (size_t y = 0; y < png.height; ++y)
    for (size_t x = 0; x < line; ++x) {
      const int left = x < bytes_per_pixel ? 0 : at(y, x - bytes_per_pixel);
      const int up = y == 0 ? 0 : at(y - 1, x);
      const int corner = x < bytes_per_pixel || y == 0 ? 0 : at(y - 1, x - bytes_per_pixel);
      const int to_left = std::abs(up - corner), to_up = std::abs(left - corner),
                to_corner = std::abs(left + up - 2 * corner);
      const int paeth = to_left <= to_up && to_left <= to_corner ? left
                        : to_up <= to_corner                     ? up
                                                                 : corner;
      const int guesses[] = {0, left, up, (left + up) / 2, paeth};
      const int guess = guesses[raw[y * (line + 1)]];
      png.bytes[y * line + x] = static_cast<uint8_t>(raw[y * (line + 1) + 1 + x] + guess);
    }
  return png;
}

TEST_F(ImageTest, GridPlacesScalesAndSeparatesImages) {
  // Three images of 2 x 3 in two columns, twice as large, one pixel apart.
  std::vector<uint8_t> pixels;
  for (uint8_t i = 0; i < 18; ++i) pixels.push_back(static_cast<uint8_t>(100 + i));
  write_png_grid(path("grid.png"), pixels, {3, 2, 3, 1, 2, 2, 1});
  const Png png = decode_png(read_file(path("grid.png")));
  ASSERT_EQ(png.width, 13u);
  ASSERT_EQ(png.height, 9u);
  ASSERT_EQ(png.channels, 1);
  const auto at = [&](size_t y, size_t x) { return png.bytes[y * 13 + x]; };
  EXPECT_EQ(at(0, 0), 100);
  EXPECT_EQ(at(1, 1), 100);
  EXPECT_EQ(at(0, 2), 101);
  EXPECT_EQ(at(2, 0), 103);
  EXPECT_EQ(at(0, 6), 64);
  EXPECT_EQ(at(0, 7), 106);
  EXPECT_EQ(at(4, 0), 64);
  EXPECT_EQ(at(5, 0), 112);
  EXPECT_EQ(at(8, 5), 117);
  EXPECT_EQ(at(8, 12), 64);  // no fourth image
  EXPECT_FALSE(std::filesystem::exists(path("grid.png.tmp")));
}

TEST_F(ImageTest, ColorsKeepTheirOrder) {
  write_png_grid(path("rgb.png"), {1, 2, 3, 4, 5, 6}, {1, 1, 2, 3, 8, 1, 1});
  const Png png = decode_png(read_file(path("rgb.png")));
  EXPECT_EQ(png.channels, 3);
  EXPECT_EQ(png.bytes, (std::vector<uint8_t>{1, 2, 3, 4, 5, 6}));
}

TEST_F(ImageTest, UnwritablePathsAreWriteErrors) {
  const ImageGrid grid{1, 1, 1, 1, 1, 1, 0};
  expect_error(ErrorKind::write, {path("absent/a.png"), "No such file"},
               [&] { write_png_grid(path("absent/a.png"), {7}, grid); });
  std::filesystem::create_directory(path("folder"));
  put("folder/content", "x");
  expect_error(ErrorKind::write, {path("folder")},
               [&] { write_png_grid(path("folder"), {7}, grid); });
  EXPECT_FALSE(std::filesystem::exists(path("folder.tmp")));
}

TEST_F(ImageTest, AFullDiskIsAWriteErrorAndKeepsTheOldFile) {
  put("a.png", "old");
  {
    const FileSizeLimit limit(16);
    expect_error(ErrorKind::write, {path("a.png"), "cannot be written"}, [&] {
      write_png_grid(path("a.png"), {7}, {1, 1, 1, 1, 1, 1, 0});
    });
  }
  EXPECT_EQ(read_file(path("a.png")), "old");
}

TEST_F(ImageTest, WrongSizesAreRefused) {
  expect_error(ErrorKind::usage, {"5 bytes", "6"}, [&] {
    write_png_grid(path("a.png"), std::vector<uint8_t>(5), {1, 2, 3});
  });
  expect_error(ErrorKind::usage, {"channels"}, [&] {
    write_png_grid(path("a.png"), std::vector<uint8_t>(12), {1, 2, 3, 2});
  });
  expect_error(ErrorKind::usage, {"too large"}, [&] {
    write_png_grid(path("a.png"), std::vector<uint8_t>(1), {1, 1, 1, 1, 1, 20000, 0});
  });
}

int64_t count_of(const std::string& text, const std::string& part) {
  int64_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(Preview, PutsTwoPixelRowsOnALine) {
  // One image, 3 rows of 1 pixel: the last line has black below.
  const std::string preview = terminal_preview({10, 20, 30}, {1, 3, 1}, 80);
  EXPECT_EQ(preview,
            "\x1b[38;2;10;10;10m\x1b[48;2;20;20;20m\u2580\x1b[0m\n"
            "\x1b[38;2;30;30;30m\x1b[48;2;0;0;0m\u2580\x1b[0m\n");
  EXPECT_EQ(terminal_preview({1, 2, 3}, {1, 1, 1, 3}, 80),
            "\x1b[38;2;1;2;3m\x1b[48;2;0;0;0m\u2580\x1b[0m\n");
}

TEST(Preview, StaysInsideItsWidth) {
  // Four images of 2 x 10 with gaps of 1: three fit into 32 columns, one into 20 or 9 or 4.
  const std::vector<uint8_t> pixels(4 * 20, 200);
  for (const auto& [width, columns, lines] :
       {std::tuple{80, 43, 1}, {32, 32, 3}, {31, 21, 3}, {20, 10, 6}, {9, 5, 3}, {4, 4, 2}}) {
    const std::string preview = terminal_preview(pixels, {4, 2, 10}, width);
    EXPECT_EQ(count_of(preview, "\n"), lines) << width;
    EXPECT_EQ(count_of(preview, "\u2580"), int64_t{columns} * lines) << width;
  }
}

}  // namespace
}  // namespace linea
