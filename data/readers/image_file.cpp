#include "data/readers/image_file.h"

#define STBI_NO_STDIO
#include <stb/stb_image.h>

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include "base/error.h"
#include "data/files.h"
#include "data/image_set.h"
#include "data/readers/image_header.h"

namespace linea {
namespace {

// An image as decoded by stb: rows of `width` pixels of 1 (gray), 2 (gray, alpha), 3 (RGB) or 4
// (RGB, alpha) bytes.
struct Decoded {
  std::unique_ptr<uint8_t, void (*)(void*)> bytes{nullptr, stbi_image_free};
  int64_t width = 0, height = 0, channels = 0;
  int orientation = 1;  // of EXIF

  // The pixel that is shown at (row, column) of the image of shown_height() x shown_width():
  // orientations 5 to 8 exchange rows and columns; of the stored image, 2, 3, 7 and 8 mirror the
  // columns, 3, 4, 6 and 7 the rows.
  const uint8_t* shown(int64_t row, int64_t column) const {
    if (orientation >= 5) std::swap(row, column);
    if (orientation == 2 || orientation == 3 || orientation >= 7) column = width - 1 - column;
    if (orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7)
      row = height - 1 - row;
    return bytes.get() + (row * width + column) * channels;
  }
  int64_t shown_height() const { return orientation >= 5 ? width : height; }
  int64_t shown_width() const { return orientation >= 5 ? height : width; }
};

// Changes `bytes` as check_png and check_jpeg do.
Decoded decode(std::string& bytes, const std::string& name) {
  const bool is_png = bytes.starts_with(kPngStart);
  if (!is_png && !bytes.starts_with(kJpegStart))
    fail(ErrorKind::input, "{}: is neither a PNG nor a JPEG file; convert it to one of them", name);
  const ImageHeader header = is_png ? check_png(bytes, name) : check_jpeg(bytes, name);
  int width = 0, height = 0, channels = 0;
  Decoded decoded;
  decoded.bytes.reset(stbi_load_from_memory(reinterpret_cast<const stbi_uc*>(bytes.data()),
                                            static_cast<int>(bytes.size()), &width, &height,
                                            &channels, 0));
  if (!decoded.bytes) fail_damaged(name, stbi_failure_reason());
  decoded.width = width;
  decoded.height = height;
  decoded.channels = channels;
  decoded.orientation = header.orientation;
  return decoded;
}

// c' = c * alpha + white * (1 - alpha), alpha = a / 255
uint8_t on_white(int color, int alpha) {
  return static_cast<uint8_t>((color * alpha + 255 * (255 - alpha) + 127) / 255);
}

// The central square as shown, edge x edge x channels bytes.
std::vector<uint8_t> crop(const Decoded& image, int64_t edge, int64_t channels) {
  const int64_t top = (image.shown_height() - edge) / 2, left = (image.shown_width() - edge) / 2;
  const bool has_alpha = image.channels % 2 == 0, is_gray = image.channels <= 2;
  std::vector<uint8_t> pixels(static_cast<size_t>(edge * edge * channels));
  uint8_t* out = pixels.data();
  for (int64_t row = 0; row < edge; ++row) {
    for (int64_t column = 0; column < edge; ++column, out += channels) {
      const uint8_t* pixel = image.shown(top + row, left + column);
      const int alpha = has_alpha ? pixel[image.channels - 1] : 255;
      std::array<uint8_t, 3> rgb{};
      for (size_t i = 0; i < 3; ++i) rgb[i] = on_white(pixel[is_gray ? 0 : i], alpha);
      if (channels == 1)
        *out = luma(rgb[0], rgb[1], rgb[2]);
      else
        std::copy(rgb.begin(), rgb.end(), out);
    }
  }
  return pixels;
}

// The old pixels [first, last] that new pixel `index` covers, and the `overlap` with each. The unit
// is 1 / side of an old pixel, so that lengths are integers: an old pixel is `side` long, a new one
// `edge`.
struct Cover {
  int64_t side, edge, index;
  int64_t first() const { return index * edge / side; }
  int64_t last() const { return ((index + 1) * edge - 1) / side; }
  int64_t overlap(int64_t old) const {
    return std::min((old + 1) * side, (index + 1) * edge) - std::max(old * side, index * edge);
  }
};

// new = sum over the covered old pixels of old * height of overlap * width of overlap / edge^2
std::vector<uint8_t> resize(const std::vector<uint8_t>& old, int64_t edge, int64_t side,
                            int64_t channels) {
  std::vector<uint8_t> pixels;
  pixels.reserve(static_cast<size_t>(side * side * channels));
  std::vector<int64_t> sums(
      static_cast<size_t>(edge * channels));  // over the rows, for each old column
  for (int64_t row = 0; row < side; ++row) {
    const Cover rows{side, edge, row};
    std::fill(sums.begin(), sums.end(), 0);
    for (int64_t y = rows.first(); y <= rows.last(); ++y) {
      const uint8_t* line = old.data() + y * edge * channels;
      const int64_t height = rows.overlap(y);
      for (size_t i = 0; i < sums.size(); ++i) sums[i] += height * line[i];
    }
    for (int64_t column = 0; column < side; ++column)
      for (int64_t channel = 0; channel < channels; ++channel) {
        const Cover columns{side, edge, column};
        int64_t sum = 0;
        for (int64_t x = columns.first(); x <= columns.last(); ++x)
          sum += columns.overlap(x) * sums[static_cast<size_t>(x * channels + channel)];
        pixels.push_back(static_cast<uint8_t>((sum + edge * edge / 2) / (edge * edge)));
      }
  }
  return pixels;
}

}  // namespace

std::vector<uint8_t> decode_image(std::string bytes, const std::string& name, int64_t side,
                                  int64_t channels) {
  require(side >= 1 && side <= kMaxImageSide, "{}: an image of side {}; choose 1 to {}", name, side,
          kMaxImageSide);
  require(channels == 1 || channels == 3, "{}: an image of {} channels; choose 1 (gray) or 3 (RGB)",
          name, channels);
  const Decoded image = decode(bytes, name);
  const int64_t edge = std::min(image.width, image.height);
  std::vector<uint8_t> square = crop(image, edge, channels);
  return edge == side ? square : resize(square, edge, side, channels);
}

std::vector<uint8_t> read_image(const std::filesystem::path& path, int64_t side, int64_t channels) {
  return decode_image(read_file(path, kMaxImageBytes), path.string(), side, channels);
}

}  // namespace linea
