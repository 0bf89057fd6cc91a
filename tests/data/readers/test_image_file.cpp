#include "data/readers/image_file.h"

#include "data/image.h"
#include "tests/data/data_helpers.h"
#include "tests/data/readers/png_bytes.h"

namespace linea {
namespace {

using Bytes = std::vector<uint8_t>;

std::string text(const Bytes& bytes) { return {bytes.begin(), bytes.end()}; }

class ImageFileTest : public DataTest {
 protected:
  Bytes decode(const std::string& bytes, int64_t side, int64_t channels) const {
    return decode_image(bytes, "image", side, channels);
  }
};

TEST_F(ImageFileTest, CropsTheMiddleOfWideAndHighImages) {
  const std::string wide = png_bytes(5, 2, 8, 0, {text({1, 2, 3, 4, 5}), text({6, 7, 8, 9, 10})});
  EXPECT_EQ(decode(wide, 2, 1), (Bytes{2, 3, 7, 8}));
  const std::string high =
      png_bytes(2, 4, 8, 0, {text({1, 2}), text({3, 4}), text({5, 6}), text({7, 8})});
  EXPECT_EQ(decode(high, 2, 1), (Bytes{3, 4, 5, 6}));
}

TEST_F(ImageFileTest, KeepsColorsInOrder) {
  const std::string colors =
      png_bytes(2, 2, 8, 2, {text({255, 0, 0, 0, 255, 0}), text({0, 0, 255, 1, 2, 3})});
  EXPECT_EQ(decode(colors, 2, 3), (Bytes{255, 0, 0, 0, 255, 0, 0, 0, 255, 1, 2, 3}));
  EXPECT_EQ(decode(colors, 2, 1), (Bytes{76, 150, 29, 2}));  // 0.299, 0.587, 0.114
}

TEST_F(ImageFileTest, GrayHasEqualChannels) {
  EXPECT_EQ(decode(png_bytes(1, 1, 8, 0, {"\x42"}), 1, 3), (Bytes{0x42, 0x42, 0x42}));
  EXPECT_EQ(decode(png_bytes(1, 1, 8, 0, {"\x42"}), 1, 1), (Bytes{0x42}));
}

TEST_F(ImageFileTest, ShrinksByAreaAverage) {
  // 3 x 3 to 2 x 2: a new pixel covers 1.5 x 1.5 old ones.
  const std::string three =
      png_bytes(3, 3, 8, 0, {text({90, 0, 9}), text({0, 180, 0}), text({0, 0, 0})});
  // (90 + 180 / 4) / 2.25 = 60; (9 + 180 / 4) / 2.25 = 24; 180 / 4 / 2.25 = 20
  EXPECT_EQ(decode(three, 2, 1), (Bytes{60, 24, 20, 20}));
  const std::string colors =
      png_bytes(2, 2, 8, 2, {text({4, 0, 0, 0, 8, 0}), text({0, 0, 12, 0, 0, 0})});
  EXPECT_EQ(decode(colors, 1, 3), (Bytes{1, 2, 3}));
}

TEST_F(ImageFileTest, EnlargesByTheSameRule) {
  const std::string two = png_bytes(2, 2, 8, 0, {text({0, 90}), text({180, 30})});
  EXPECT_EQ(decode(two, 4, 1),
            (Bytes{0, 0, 90, 90, 0, 0, 90, 90, 180, 180, 30, 30, 180, 180, 30, 30}));
  EXPECT_EQ(decode(two, 3, 1), (Bytes{0, 45, 90, 90, 75, 60, 180, 105, 30}));
}

TEST_F(ImageFileTest, PutsTransparencyOnWhite) {
  const std::string rgba = png_bytes(
      2, 2, 8, 6, {text({10, 20, 30, 255, 10, 20, 30, 0}), text({100, 0, 0, 51, 0, 0, 0, 255})});
  EXPECT_EQ(decode(rgba, 2, 3), (Bytes{10, 20, 30, 255, 255, 255, 224, 204, 204, 0, 0, 0}));
  EXPECT_EQ(decode(png_bytes(1, 1, 8, 4, {text({0, 102})}), 1, 1), (Bytes{153}));
}

TEST_F(ImageFileTest, ReadsPalettesAndSixteenBits) {
  const std::string palette =
      png_chunk("PLTE", text({1, 2, 3, 40, 50, 60})) + png_chunk("tRNS", text({255, 0}));
  const std::string indexed = png_bytes(2, 2, 1, 3, {"\x40", std::string(1, '\0')}, palette);
  EXPECT_EQ(decode(indexed, 2, 3), (Bytes{1, 2, 3, 255, 255, 255, 1, 2, 3, 1, 2, 3}));
  const std::string deep = png_bytes(1, 1, 16, 2, {text({0x12, 0x34, 0x56, 0x78, 0x9A, 0xBC})});
  EXPECT_EQ(decode(deep, 1, 3), (Bytes{0x12, 0x56, 0x9A}));
}

TEST_F(ImageFileTest, ReadsJpeg) {
  Bytes pixels;
  for (int i = 0; i < 16 * 16; ++i) pixels.insert(pixels.end(), {200, 100, 50});
  const Bytes read = decode(jpeg_bytes(16, 16, 3, pixels), 8, 3);
  ASSERT_EQ(read.size(), 8u * 8u * 3u);
  for (size_t i = 0; i < read.size(); ++i) EXPECT_NEAR(read[i], pixels[i], 3) << i;
}

TEST_F(ImageFileTest, ReadsGridsBack) {
  const Bytes pixels{0, 1, 2, 3, 4, 5, 250, 251, 252, 253, 254, 255};
  write_png_grid(path("grid.png"), pixels, {.count = 1, .height = 2, .width = 2, .channels = 3});
  EXPECT_EQ(read_image(path("grid.png"), 2, 3), pixels);
}

TEST_F(ImageFileTest, RefusesEveryTruncation) {
  const std::string png =
      png_bytes(3, 3, 8, 2, {std::string(9, 'a'), std::string(9, 'b'), std::string(9, 'c')});
  const std::string jpeg = jpeg_bytes(24, 24, 1, Bytes(24 * 24, 77));
  for (const std::string& whole : {png, jpeg}) {
    EXPECT_NO_THROW(decode(whole, 3, 3));
    for (size_t size = 0; size < whole.size(); ++size)
      expect_error(ErrorKind::input, {"image: is "}, [&] { decode(whole.substr(0, size), 3, 3); });
  }
}

TEST_F(ImageFileTest, DetectsAChangedByteOfAPng) {
  const std::string png = png_bytes(3, 3, 8, 0, {"abc", "def", "ghi"});
  for (size_t i = 0; i < png.size(); ++i) {
    std::string damaged = png;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x10);
    expect_error(ErrorKind::input, {"image: is "}, [&] { decode(damaged, 3, 1); });
  }
}

// stb would decode by what is in memory.
TEST_F(ImageFileTest, AJpegWhoseScanHasNoTableIsRefused) {
  for (const int64_t channels : {1, 3}) {
    const std::string jpeg =
        jpeg_bytes(8, 8, channels, Bytes(static_cast<size_t>(64 * channels), 9));
    const size_t scan = jpeg.find("\xFF\xDA");
    ASSERT_NE(scan, std::string::npos);
    for (const char tables : {'\x20', '\x02', '\x33'}) {
      std::string changed = jpeg;
      changed[scan + 6] = tables;
      expect_error(ErrorKind::input, {fmt::format("scan at byte {}", scan), "no Huffman table"},
                   [&] { decode(changed, 8, channels); });
    }
  }
}

// A JPEG has no checksum: any answer will do but a crash.
TEST_F(ImageFileTest, SurvivesAnyChangedByteOfAJpeg) {
  Bytes pixels;
  for (int i = 0; i < 24 * 24 * 3; ++i) pixels.push_back(static_cast<uint8_t>(i * i / 7));
  const std::string jpeg = jpeg_bytes(24, 24, 3, pixels);
  int refused = 0;
  for (size_t i = 0; i < jpeg.size(); ++i) {
    std::string damaged = jpeg;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x55);
    try {
      EXPECT_EQ(decode(damaged, 4, 3).size(), 48u);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::input) << error.what();
      ++refused;
    }
  }
  EXPECT_GT(refused, 10);
}

TEST_F(ImageFileTest, AnEndMarkerInsideASegmentIsIgnored) {
  const std::string jpeg = jpeg_bytes(16, 16, 1, Bytes(256, 9));
  const std::string comment{'\xff', '\xfe', '\0', '\x04', '\xff', '\xd9'};
  const std::string with_comment = jpeg.substr(0, 2) + comment + jpeg.substr(2);
  EXPECT_EQ(decode(with_comment, 1, 1).size(), 1u);
  expect_error(ErrorKind::input, {"no end marker"},
               [&] { decode(with_comment.substr(0, with_comment.size() - 2), 1, 1); });
}

TEST_F(ImageFileTest, RefusesHugeImagesByTheirHeader) {
  const std::string bomb = png_bytes(60000, 60000, 8, 0, {std::string(1000, '\0')});
  expect_error(ErrorKind::input, {"60000 x 60000", fmt::format("{}", kMaxImagePixels)},
               [&] { decode(bomb, 8, 1); });
  expect_error(ErrorKind::input, {"1 x 4294967295 pixels"},
               [&] { decode(png_bytes(1, 0xFFFFFFFF, 8, 0, {"a"}), 8, 1); });
  const std::string row(70000, 'a');
  expect_error(ErrorKind::input, {"too large"}, [&] {
    decode(png_bytes(70000, 2, 8, 0, {row, row}), 8, 1);
  });
}

TEST_F(ImageFileTest, MemoryIsBoundedByTheFile) {
  expect_error(ErrorKind::input, {"8192 x 8192 pixels cannot be encoded"},
               [&] { decode(png_bytes(8192, 8192, 8, 6, {"a"}), 8, 1); });
  std::string jpeg = jpeg_bytes(8, 8, 1, std::vector<uint8_t>(64, 9));
  const size_t frame = jpeg.find("\xFF\xC0");
  ASSERT_NE(frame, std::string::npos);
  jpeg.replace(frame + 5, 4, "\x10\x01\x10\x02");  // height, width
  expect_error(ErrorKind::input, {"4098 x 4097 pixels cannot be encoded"},
               [&] { decode(jpeg, 8, 1); });
  decode(png_bytes(2000, 2000, 8, 0, std::vector<std::string>(2000, std::string(2000, 'a'))), 8, 1);
}

TEST_F(ImageFileTest, RefusesOversizedJpegTables) {
  const std::string jpeg = jpeg_bytes(8, 8, 1, std::vector<uint8_t>(64, 9));
  const size_t tables = jpeg.find("\xFF\xC4");
  ASSERT_NE(tables, std::string::npos);
  std::string too_many = jpeg, cut = jpeg;
  too_many[tables + 5] = too_many[tables + 6] = '\xFF';  // codes of one and of two bits
  ++cut[tables + 3];                                     // of the segment's length
  expect_error(ErrorKind::input, {"Huffman table", "wrong size"}, [&] { decode(too_many, 8, 1); });
  expect_error(ErrorKind::input, {"Huffman table", "wrong size"}, [&] { decode(cut, 8, 1); });
}

TEST_F(ImageFileTest, RefusesHugeFilesUnread) {
  const std::string long_file = put("long.png", "x");
  std::filesystem::resize_file(long_file, kMaxImageBytes + 1);
  expect_error(ErrorKind::input, {long_file, fmt::format("{}", kMaxImageBytes + 1)},
               [&] { read_image(long_file, 8, 1); });
}

TEST_F(ImageFileTest, NamesFilesThatAreNoImage) {
  const std::string gif = put("a.png", "GIF89a...........................");
  expect_error(ErrorKind::input, {gif, "neither a PNG nor a JPEG"}, [&] { read_image(gif, 8, 1); });
  expect_error(ErrorKind::input, {"absent.png", "no such file"},
               [&] { read_image(path("absent.png"), 8, 1); });
  const std::string pixel = png_bytes(1, 1, 8, 0, {"a"});
  expect_error(ErrorKind::usage, {"side 0"}, [&] { decode(pixel, 0, 1); });
  expect_error(ErrorKind::usage, {"2 channels"}, [&] { decode(pixel, 1, 2); });
}

}  // namespace
}  // namespace linea
