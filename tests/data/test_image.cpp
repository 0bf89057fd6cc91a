#include "data/image.h"

#include <tuple>

#include "tests/data/data_helpers.h"
#include "tests/data/file_size_limit.h"
#include "tests/data/png_decoder.h"

namespace linea {
namespace {

using ImageTest = DataTest;

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

TEST_F(ImageTest, CaptionsAreAboveTheColumns) {
  const ImageGrid plain{4, 12, 12, 1, 2, 1, 1};
  const std::vector<uint8_t> pixels(4 * 12 * 12, 7);
  write_png_grid(path("plain.png"), pixels, plain);
  ImageGrid named = plain;
  named.captions = {"1", "m?"};  // no glyph for the question mark
  write_png_grid(path("named.png"), pixels, named);
  const Png below = decode_png(read_file(path("plain.png"))),
            png = decode_png(read_file(path("named.png")));
  ASSERT_EQ(png.height, below.height + 13);
  EXPECT_TRUE(
      std::equal(below.bytes.begin(), below.bytes.end(), png.bytes.begin() + 13 * png.width));
  std::string shown;
  for (size_t y = 0; y < 13; ++y) {
    for (size_t x = 0; x < png.width; ++x) shown += png.bytes[y * png.width + x] == 230 ? '#' : '.';
    shown += '\n';
  }
  EXPECT_EQ(shown,
            ".........................\n"
            ".........................\n"
            ".........................\n"
            "......#..................\n"
            ".....##..................\n"
            "......#.......##.#.......\n"
            "......#.......#.#.#......\n"
            "......#.......#.#.#......\n"
            "......#.......#.#.#......\n"
            ".....###......#.#.#......\n"
            ".........................\n"
            ".........................\n"
            ".........................\n");
}

TEST_F(ImageTest, ColorScaleIsBelowTheImages) {
  ImageGrid grid{1, 4, 40, 3, 1, 1, 0};
  grid.color_scale = {{0, 0, 0, 9, 9, 9, 99, 99, 99}, 2, "bits"};
  write_png_grid(path("scale.png"), std::vector<uint8_t>(4 * 40 * 3, 7), grid);
  const Png png = decode_png(read_file(path("scale.png")));
  ASSERT_EQ(png.height, 4u + 3 + 8 + 2 * 13);
  const auto at = [&](size_t y, size_t x) { return png.bytes[(y * 40 + x) * 3]; };
  EXPECT_EQ(at(3, 0), 7);
  EXPECT_EQ(at(4, 0), 64);
  EXPECT_EQ(at(7, 0), 0);
  EXPECT_EQ(at(14, 20), 9);
  EXPECT_EQ(at(7, 39), 99);
  EXPECT_EQ(at(18, 1), 230);   // the top of 0, at the left end
  EXPECT_EQ(at(24, 35), 230);  // the foot of 2, at the right end
  grid.channels = 1;
  expect_error(ErrorKind::usage, {"color scale", "3 channels"},
               [&] { write_png_grid(path("x.png"), std::vector<uint8_t>(4 * 40, 7), grid); });
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
