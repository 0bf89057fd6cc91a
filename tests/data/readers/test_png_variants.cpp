// Every form of a PNG against pixels computed here: 15 pairs of color type and depth, 11 of them
// also with a transparent color or palette, each plain and interlaced.
#include <array>

#include "data/readers/image_file.h"
#include "tests/data/data_helpers.h"
#include "tests/data/readers/png_bytes.h"

namespace linea {
namespace {

constexpr int kPngSide = 11;
constexpr int kGray = 0, kRgb = 2, kPalette = 3, kGrayAlpha = 4, kRgbAlpha = 6;

struct PngForm {
  int color = 0, depth = 8;
  bool interlaced = false, transparent = false;

  int channels() const {
    return color == kRgb ? 3 : color == kGrayAlpha ? 2 : color == kRgbAlpha ? 4 : 1;
  }
  std::string name() const {
    return fmt::format("color {}, depth {}{}{}", color, depth, interlaced ? ", interlaced" : "",
                       transparent ? ", transparent" : "");
  }
};

// Any value of `depth` bits. Of 16 bits, the one at (4, 2) differs from that at (3, 2) in its last
// bit, so that only one is the transparent color.
uint32_t stored_value(const PngForm& form, int x, int y, int channel) {
  if (form.depth == 16 && x == 4 && y == 2) return stored_value(form, 3, 2, channel) ^ 1;
  const auto mixed =
      static_cast<uint32_t>(x * 7919 + y * 104729 + channel * 1299709 + 1) * 2654435761u;
  return mixed >> (32 - form.depth);
}

std::array<int, 3> palette_color(uint32_t index) {
  const int i = static_cast<int>(index);
  return {(i * 37 + 5) % 256, (i * 91 + 60) % 256, (i * 53 + 130) % 256};
}
int palette_alpha(uint32_t index) { return static_cast<int>(index * 77 % 256); }

// The rows of the pixels x0, x0 + dx, ... of the rows y0, y0 + dy, ..., each after its filter.
std::string filtered_rows(const PngForm& form, int x0, int y0, int dx, int dy) {
  if (x0 >= kPngSide || y0 >= kPngSide) return "";
  const size_t step = static_cast<size_t>(std::max(1, form.depth * form.channels() / 8));
  std::string packed, above;
  int filter = 0;
  for (int y = y0; y < kPngSide; y += dy, filter = (filter + 1) % 5) {
    std::string row;
    int free = 0;  // bits of the last byte
    for (int x = x0; x < kPngSide; x += dx)
      for (int channel = 0; channel < form.channels(); ++channel) {
        const uint32_t value = stored_value(form, x, y, channel);
        if (form.depth == 16) row += static_cast<char>(value >> 8);
        if (form.depth >= 8) {
          row += static_cast<char>(value & 0xFF);
          continue;
        }
        if (free == 0) {
          row += '\0';
          free = 8;
        }
        free -= form.depth;
        row.back() = static_cast<char>(row.back() | static_cast<int>(value << free));
      }
    above.resize(row.size(), '\0');
    packed += static_cast<char>(filter);
    for (size_t i = 0; i < row.size(); ++i) {
      const auto byte = [](const std::string& line, size_t at) {
        return int{static_cast<unsigned char>(line[at])};
      };
      const int left = i < step ? 0 : byte(row, i - step), up = byte(above, i),
                corner = i < step ? 0 : byte(above, i - step);
      const int to_left = std::abs(up - corner), to_up = std::abs(left - corner),
                to_corner = std::abs(left + up - 2 * corner);
      const int paeth = to_left <= to_up && to_left <= to_corner ? left
                        : to_up <= to_corner                     ? up
                                                                 : corner;
      const std::array<int, 5> guesses = {0, left, up, (left + up) / 2, paeth};
      packed += static_cast<char>(byte(row, i) - guesses[static_cast<size_t>(filter)]);
    }
    above = row;
  }
  return packed;
}

std::string palette_chunks(const PngForm& form, int entries) {
  std::string colors, alphas;
  for (int i = 0; i < entries; ++i) {
    for (const int part : palette_color(static_cast<uint32_t>(i)))
      colors += static_cast<char>(part);
    alphas += static_cast<char>(palette_alpha(static_cast<uint32_t>(i)));
  }
  return png_chunk("PLTE", colors) + (form.transparent ? png_chunk("tRNS", alphas) : "");
}

// The color of the pixel (3, 2).
std::string transparent_chunk(const PngForm& form) {
  std::string key;
  for (int channel = 0; channel < form.channels(); ++channel)
    key += word_bytes(stored_value(form, 3, 2, channel)).substr(2);
  return png_chunk("tRNS", key);
}

std::string encode_form(const PngForm& form, const std::string& more_chunks) {
  std::string raw;
  if (form.interlaced) {
    constexpr int kPasses[7][4] = {{0, 0, 8, 8}, {4, 0, 8, 8}, {0, 4, 4, 8}, {2, 0, 4, 4},
                                   {0, 2, 2, 4}, {1, 0, 2, 2}, {0, 1, 1, 2}};
    for (const auto& [x0, y0, dx, dy] : kPasses) raw += filtered_rows(form, x0, y0, dx, dy);
  } else {
    raw = filtered_rows(form, 0, 0, 1, 1);
  }
  return png_file(kPngSide, kPngSide, form.depth, form.color, form.interlaced, raw, more_chunks);
}

// A value of `depth` bits as one of 8.
int to_byte(uint32_t value, int depth) {
  return static_cast<int>(depth == 16 ? value >> 8 : value * 255 / ((1u << depth) - 1));
}

// `entries`: of the palette; what is beyond is black.
std::vector<uint8_t> expected_pixels(const PngForm& form, int entries) {
  std::vector<uint8_t> pixels;
  for (int y = 0; y < kPngSide; ++y)
    for (int x = 0; x < kPngSide; ++x) {
      std::array<int, 3> rgb{};
      const uint32_t first = stored_value(form, x, y, 0);
      int alpha = 255;
      if (form.color == kPalette) {
        const bool inside = static_cast<int>(first) < entries;
        if (inside) rgb = palette_color(first);
        if (inside && form.transparent) alpha = palette_alpha(first);
      } else {
        const bool gray = form.color == kGray || form.color == kGrayAlpha;
        bool is_key = form.transparent;
        for (int i = 0; i < 3; ++i) {
          const uint32_t value = stored_value(form, x, y, gray ? 0 : i);
          rgb[static_cast<size_t>(i)] = to_byte(value, form.depth);
          is_key = is_key && value == stored_value(form, 3, 2, gray ? 0 : i);
        }
        if (is_key) alpha = 0;
        if (form.color == kGrayAlpha || form.color == kRgbAlpha)
          alpha = to_byte(stored_value(form, x, y, form.channels() - 1), form.depth);
      }
      for (const int part : rgb)
        pixels.push_back(static_cast<uint8_t>((part * alpha + 255 * (255 - alpha) + 127) / 255));
    }
  return pixels;
}

std::vector<PngForm> all_forms() {
  std::vector<PngForm> forms;
  for (const int color : {kGray, kRgb, kPalette, kGrayAlpha, kRgbAlpha})
    for (const int depth : {1, 2, 4, 8, 16}) {
      const bool exists = color == kGray || (color == kPalette ? depth <= 8 : depth >= 8);
      const bool has_key = color == kGray || color == kRgb || color == kPalette;
      for (const bool interlaced : {false, true})
        for (const bool transparent : {false, true})
          if (exists && (has_key || !transparent))
            forms.push_back({color, depth, interlaced, transparent});
    }
  return forms;
}

TEST(PngVariants, PixelsAreThoseOfTheForm) {
  const std::vector<PngForm> forms = all_forms();
  ASSERT_EQ(forms.size(), 52u);
  for (const PngForm& form : forms) {
    const int entries = 1 << form.depth;
    const std::string chunks = form.color == kPalette ? palette_chunks(form, entries)
                               : form.transparent     ? transparent_chunk(form)
                                                      : "";
    EXPECT_EQ(decode_image(encode_form(form, chunks), "image", kPngSide, 3),
              expected_pixels(form, entries))
        << form.name();
  }
}

// Fills the stack below with a byte, for what reads it later.
[[gnu::noinline]] int dirty_stack(int value) {
  std::array<volatile unsigned char, 16384> room;
  for (auto& byte : room) byte = static_cast<unsigned char>(value);
  return room[9000];
}

// As libpng has it. stb reads what is in memory.
TEST(PngVariants, AnIndexBeyondThePaletteIsBlack) {
  for (const PngForm& form : all_forms()) {
    if (form.color != kPalette) continue;
    const int entries = (1 << form.depth) / 2;
    const std::string png = encode_form(form, palette_chunks(form, entries));
    const std::vector<uint8_t> expected = expected_pixels(form, entries);
    EXPECT_EQ(std::count(expected.begin(), expected.end(), 0) > 20, true);
    for (const int value : {0, 85, 170, 255}) {
      EXPECT_EQ(dirty_stack(value), value);
      EXPECT_EQ(decode_image(png, "image", kPngSide, 3), expected) << form.name();
    }
  }
}

TEST(PngVariants, ATransparentGrayHasTheBitsOfItsDepth) {
  const std::string rows = std::string(1, '\0') + '\x40';  // the pixels 0, 1
  const std::string png =
      png_file(2, 1, 1, kGray, false, rows, png_chunk("tRNS", std::string("\x00\x02", 2)));
  EXPECT_EQ(decode_image(png, "image", 1, 1), std::vector<uint8_t>{255});
}

TEST(PngVariants, RefusesFormsThatDoNotExist) {
  const auto expect_refused = [](const std::string& png, const std::string& reason) {
    expect_error(ErrorKind::input, {"image: is ", reason},
                 [&] { decode_image(png, "image", 1, 1); });
  };
  for (const auto& [color, depth] :
       {std::pair{kRgb, 4}, {kGrayAlpha, 2}, {kRgbAlpha, 1}, {kPalette, 16}, {kGray, 3}, {5, 8}})
    expect_refused(png_bytes(1, 1, depth, color, {"aaaaaaaa"}, png_chunk("PLTE", "abc")),
                   fmt::format("no color type {} of {} bits", color, depth));
  const std::string palette = png_chunk("PLTE", "abc");
  expect_refused(png_bytes(1, 1, 8, kPalette, {"a"}, palette + palette), "two palettes");
  expect_refused(png_bytes(1, 1, 8, kPalette, {"a"}, png_chunk("PLTE", "abcd")),
                 "palette has 4 bytes");
  expect_refused(png_bytes(1, 1, 8, kPalette, {"a"}, palette + png_chunk("tRNS", "ab")),
                 "transparent colors beyond its palette");
  expect_refused(png_bytes(1, 1, 8, kGray, {"a"}, png_chunk("ABCD", "")), "chunks of type 'ABCD'");
  std::string apple = png_bytes(1, 1, 8, kGray, {"a"});
  apple.insert(8, png_chunk("CgBI", std::string("\x50\x00\x20\x06", 4)));
  expect_refused(apple, "Apple's own form (CgBI)");
}

}  // namespace
}  // namespace linea
