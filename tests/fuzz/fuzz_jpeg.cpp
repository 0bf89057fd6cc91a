// A JPEG; the size chooses gray or colors.
#include "data/readers/image_file.h"
#include "tests/fuzz/promise.h"
#include "tests/fuzz/targets.h"

namespace linea::fuzz {

int fuzz_jpeg(const uint8_t* data, size_t size) {
  const std::string bytes = to_string(data, size);
  constexpr size_t kPixels =
      1024;  // of a byte of coded data, at most; decoded, converted and cropped
  expect_value_or_error(size, [&] { decode_image(bytes, "an image", 5, size % 2 == 0 ? 3 : 1); },
                        {size_t{16} << 20, 24 * kPixels});
  return 0;
}

}  // namespace linea::fuzz
