// The JSON of a safetensors file alone: the first byte is the number of data bytes that come
// behind it.
#include "data/safetensors_header.h"
#include "tests/fuzz/promise.h"
#include "tests/fuzz/targets.h"

namespace linea::fuzz {

int fuzz_safetensors_header(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  expect_value_or_error(size, [&] {
    const SafetensorsHeader header =
        parse_safetensors_header(to_string(data + 1, size - 1), data[0], "some.file");
    for (const std::string& warning : header.warnings) expect_one_line(warning);
    // What was read can be written, and is the same when it is read again.
    const std::string again = format_safetensors_header(header.entries, header.metadata);
    const SafetensorsHeader reread = parse_safetensors_header(again, data[0], "its own");
    expect(format_safetensors_header(reread.entries, reread.metadata) == again,
           "it changes when it is written again");
  });
  return 0;
}

}  // namespace linea::fuzz
