// A bitmap font of 5 x 7 pixels for short captions in images: digits and small letters.
#pragma once

#include <array>
#include <cstdint>
#include <string>

namespace linea {

constexpr int64_t kGlyphWidth = 5, kGlyphHeight = 7, kGlyphAdvance = 6;

// Rows from the top, five bits each, the leftmost pixel the highest. Blank for other characters.
std::array<uint8_t, kGlyphHeight> glyph(char character);

// In pixels.
inline int64_t text_width(const std::string& text) {
  return static_cast<int64_t>(text.size()) * kGlyphAdvance - (kGlyphAdvance - kGlyphWidth);
}

}  // namespace linea
