#include <array>
#include <cmath>

#include "data/readers/image_file.h"
#include "tests/data/data_helpers.h"
#include "tests/data/readers/jpeg_files.h"
#include "tests/data/readers/png_bytes.h"

namespace linea {
namespace {

using namespace std::string_literals;

std::string jpeg_of(const std::string& form) {
  for (const JpegFile& file : kJpegFiles)
    if (file.form == form) return file.bytes();
  ADD_FAILURE() << form;
  return "";
}

// The image of all files: red, green and blue are ramps.
std::array<double, 3> ramp(int x, int y) {
  return {40.0 + 10 * x, 200.0 - 8 * y, 90.0 + 4 * x + 3 * y};
}

void expect_refused(const std::string& bytes, const std::string& reason) {
  expect_error(ErrorKind::input, {"image: is ", reason},
               [&] { decode_image(bytes, "image", 4, 3); });
}

// The position of the first segment of this marker.
size_t find_segment(const std::string& jpeg, int marker) {
  for (size_t position = 2; position + 4 < jpeg.size();) {
    if (static_cast<unsigned char>(jpeg[position + 1]) == marker) return position;
    position += 2 + (static_cast<size_t>(static_cast<unsigned char>(jpeg[position + 2])) << 8 |
                     static_cast<unsigned char>(jpeg[position + 3]));
  }
  ADD_FAILURE() << "no segment " << marker;
  return 0;
}

void erase_segments(std::string& jpeg, int marker) {
  const size_t scan = find_segment(jpeg, 0xDA);
  for (size_t position = 2; position < std::min(scan, jpeg.size());) {
    const size_t bytes =
        2 + (static_cast<size_t>(static_cast<unsigned char>(jpeg[position + 2])) << 8 |
             static_cast<unsigned char>(jpeg[position + 3]));
    if (static_cast<unsigned char>(jpeg[position + 1]) == 0xDA) return;
    if (static_cast<unsigned char>(jpeg[position + 1]) == marker)
      jpeg.erase(position, bytes);
    else
      position += bytes;
  }
}

// An EXIF block of one other tag and the orientation.
std::string exif_block(int orientation, bool big_endian) {
  const auto number = [big_endian](uint32_t value, int bytes) {
    std::string text;
    for (int i = 0; i < bytes; ++i)
      text += static_cast<char>(value >> (8 * (big_endian ? bytes - 1 - i : i)) & 0xFF);
    return text;
  };
  const auto entry = [&](uint32_t tag, uint32_t value) {
    return number(tag, 2) + number(3, 2) + number(1, 4) + number(value, 2) + number(0, 2);
  };
  return (big_endian ? "MM" : "II") + number(42, 2) + number(8, 4) + number(2, 2) +
         entry(0x100, 6) + entry(0x112, static_cast<uint32_t>(orientation)) + number(0, 4);
}

std::string with_exif(const std::string& jpeg, const std::string& exif) {
  const std::string content = "Exif\0\0"s + exif;
  return jpeg.substr(0, 2) + "\xFF\xE1" +
         word_bytes(static_cast<uint32_t>(content.size() + 2)).substr(2) + content + jpeg.substr(2);
}

TEST(JpegVariants, PixelsAreThoseOfLibjpeg) {
  constexpr int kTolerance = 8;
  ASSERT_EQ(std::size(kJpegFiles), 12u);
  for (const JpegFile& file : kJpegFiles) {
    const std::string form = file.form;
    const std::vector<uint8_t> pixels = decode_image(file.bytes(), form, kJpegSide, 3);
    const bool inked = form.starts_with("CMYK") || form.starts_with("YCCK");
    for (int y = 0; y < kJpegSide; ++y)
      for (int x = 0; x < kJpegSide; ++x)
        for (size_t i = 0; i < 3; ++i) {
          const double color = ramp(x, y)[form == "gray" ? 0 : i] * (inked ? 200.0 / 255 : 1);
          ASSERT_NEAR(pixels[static_cast<size_t>(y * kJpegSide + x) * 3 + i], color, kTolerance)
              << form << " at " << x << ", " << y << ", " << i;
        }
  }
}

TEST(JpegVariants, CmykNeedsNoMarker) {
  EXPECT_EQ(decode_image(jpeg_of("CMYK"), "", kJpegSide, 3),
            decode_image(jpeg_of("CMYK by Adobe"), "", kJpegSide, 3));
  EXPECT_EQ(decode_image(jpeg_of("YCCK by an unknown transform"), "", kJpegSide, 3),
            decode_image(jpeg_of("YCCK"), "", kJpegSide, 3));
}

// What a viewer shows at (x, y) of an image that is stored as rows of `width` pixels.
std::pair<int, int> stored_at(int orientation, int x, int y, int width, int height) {
  switch (orientation) {
    case 2:
      return {width - 1 - x, y};
    case 3:
      return {width - 1 - x, height - 1 - y};
    case 4:
      return {x, height - 1 - y};
    case 5:
      return {y, x};
    case 6:  // to be turned a quarter clockwise: the top row shows the left column, from its foot
      return {y, height - 1 - x};
    case 7:
      return {width - 1 - y, height - 1 - x};
    case 8:
      return {width - 1 - y, x};
    default:
      return {x, y};
  }
}

TEST(ExifOrientation, TurnsJpegs) {
  const std::string plain = jpeg_of("RGB by Adobe");
  for (int orientation = 1; orientation <= 8; ++orientation)
    for (const bool big_endian : {false, true}) {
      const std::string turned = with_exif(plain, exif_block(orientation, big_endian));
      const std::vector<uint8_t> pixels = decode_image(turned, "", kJpegSide, 3);
      for (const int y : {0, 3, 15})
        for (const int x : {0, 5, 15}) {
          const auto [column, row] = stored_at(orientation, x, y, kJpegSide, kJpegSide);
          for (size_t i = 0; i < 3; ++i)
            EXPECT_NEAR(pixels[static_cast<size_t>(y * kJpegSide + x) * 3 + i],
                        ramp(column, row)[i], 2)
                << orientation;
        }
    }
}

// The middle of a wide image whose two sides are not equal in width.
TEST(ExifOrientation, TurnsPngsBeforeTheyAreCropped) {
  constexpr int kWidth = 5, kHeight = 2;
  const std::vector<std::string> rows = {"\x01\x02\x03\x04\x05", "\x06\x07\x08\x09\x0A"};
  for (int orientation = 1; orientation <= 8; ++orientation)
    for (const std::string& prefix : {""s, "Exif\0\0"s}) {
      const std::string png = png_bytes(kWidth, kHeight, 8, 0, rows,
                                        png_chunk("eXIf", prefix + exif_block(orientation, true)));
      const int shown_width = orientation >= 5 ? kHeight : kWidth,
                shown_height = orientation >= 5 ? kWidth : kHeight;
      const int left = (shown_width - 2) / 2, top = (shown_height - 2) / 2;
      std::vector<uint8_t> expected;
      for (int y = top; y < top + 2; ++y)
        for (int x = left; x < left + 2; ++x) {
          const auto [column, row] = stored_at(orientation, x, y, kWidth, kHeight);
          expected.push_back(
              static_cast<uint8_t>(rows[static_cast<size_t>(row)][static_cast<size_t>(column)]));
        }
      EXPECT_EQ(decode_image(png, "", 2, 1), expected) << orientation;
    }
}

TEST(ExifOrientation, DamagedBlocksChangeNothing) {
  const std::string plain = jpeg_of("RGB by Adobe");
  const std::vector<uint8_t> pixels = decode_image(plain, "", kJpegSide, 3);
  const std::string whole = exif_block(6, true);
  for (size_t size = 0; size + 4 < whole.size(); ++size)
    EXPECT_EQ(decode_image(with_exif(plain, whole.substr(0, size)), "", kJpegSide, 3), pixels);
  for (const int orientation : {0, 9, 65535})
    EXPECT_EQ(decode_image(with_exif(plain, exif_block(orientation, false)), "", kJpegSide, 3),
              pixels);
  // The first block counts.
  const std::string two = with_exif(with_exif(plain, exif_block(3, true)), exif_block(1, true));
  EXPECT_EQ(decode_image(two, "", kJpegSide, 3), pixels);
}

TEST(JpegVariants, NamesTheKindThatIsNotSupported) {
  const std::string plain = jpeg_of("baseline 4:4:4");
  const size_t frame = find_segment(plain, 0xC0);
  for (const auto& [marker, kind] : {std::pair{'\xC3', "a lossless JPEG"},
                                     {'\xC5', "a hierarchical JPEG"},
                                     {'\xC7', "a hierarchical JPEG"},
                                     {'\xC9', "an arithmetic-coded JPEG"},
                                     {'\xCA', "an arithmetic-coded JPEG"},
                                     {'\xCB', "a lossless JPEG"},
                                     {'\xCD', "a hierarchical JPEG"},
                                     {'\xDE', "a hierarchical JPEG"},
                                     {'\xF7', "a lossless JPEG (JPEG-LS)"}}) {
    std::string changed = plain;
    changed[frame + 1] = marker;
    expect_refused(changed, kind + ", which is not supported; convert it"s);
  }
  std::string deep = plain, late = plain, two = plain;
  deep[frame + 4] = 12;
  expect_refused(deep, "a 12-bit JPEG, which is not supported; convert it");
  late.replace(frame + 5, 2, std::string(2, '\0'));
  expect_refused(late, "a JPEG whose height follows its first scan");
  two.replace(frame + 2, 2, std::string("\0\x0E", 2)).erase(frame + 16, 3);
  two[frame + 9] = 2;
  expect_refused(two, "a JPEG of 2 components");
  std::string progressive = jpeg_of("progressive 4:2:0");
  const size_t tables = find_segment(progressive, 0xDB);
  const std::string table = progressive.substr(tables, 2 + 67);
  progressive.insert(progressive.size() - 2, table);
  expect_refused(progressive, "a progressive JPEG whose quantization tables change");
}

// stb takes what is missing for gray.
TEST(JpegVariants, RefusesJpegsWithoutScansOrTables) {
  const std::string plain = jpeg_of("baseline 4:4:4");
  const size_t frame = find_segment(plain, 0xC0), scan = find_segment(plain, 0xDA);
  expect_refused(plain.substr(0, scan) + "\xFF\xD9", "no scan");
  expect_refused(plain.substr(0, scan + 14) + "\xFF\xD9", "scan at byte");
  expect_refused(plain.substr(0, 2) + "\xFF\xD9", "no frame");
  std::string none = plain;
  erase_segments(none, 0xDB);
  expect_refused(none, "no quantization table");
  std::string other = plain;
  other[frame + 10 + 2] = 3;  // the table of the first component
  expect_refused(other, "no quantization table");
  std::string unknown = plain;
  unknown[scan + 5] = 77;
  expect_refused(unknown, "component 77, which is not in its frame");
  std::string gray = jpeg_of("gray"), partial = plain;
  partial.replace(scan, 14, gray.substr(find_segment(gray, 0xDA), 10));  // a scan of the first
  expect_refused(partial, "component 2 has no scan");
  std::string long_scan = plain;
  ++long_scan[scan + 3];
  expect_refused(long_scan, "scan at byte");
  std::string long_table = plain;
  ++long_table[find_segment(plain, 0xDB) + 3];
  expect_refused(long_table, "quantization tables have the wrong size");
}

}  // namespace
}  // namespace linea
