// A PNG, with the checksums that it has and with right ones; the size chooses gray or colors.
#include "data/readers/image_file.h"
#include "tests/fuzz/promise.h"
#include "tests/fuzz/repaired.h"
#include "tests/fuzz/targets.h"

namespace linea::fuzz {

int fuzz_png(const uint8_t* data, size_t size) {
  const std::string bytes = to_string(data, size);
  constexpr size_t kInflation = 1032;  // of deflate, at most; a bit may be a pixel of four bytes
  for (const std::string& form : {bytes, with_png_checksums(bytes)})
    expect_value_or_error(size, [&] { decode_image(form, "an image", 5, size % 2 == 0 ? 3 : 1); },
                          {size_t{16} << 20, 64 * kInflation});
  return 0;
}

}  // namespace linea::fuzz
