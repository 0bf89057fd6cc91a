// A safetensors file: its header, then every tensor in it.
#include "data/safetensors.h"
#include "tests/fuzz/promise.h"
#include "tests/fuzz/targets.h"

namespace linea::fuzz {

int fuzz_safetensors(const uint8_t* data, size_t size) {
  expect_value_or_error(size, [&] {
    const SafetensorsFile file = SafetensorsFile::parse(to_string(data, size));
    for (const std::string& warning : file.warnings()) expect_one_line(warning);
    for (const SafetensorsEntry& entry : file.entries()) {
      try {
        file.read(entry.name);
      } catch (const Error& error) {  // the next may be sound
        expect(error.kind() == ErrorKind::input, error.what());
        expect_one_line(error.what());
      }
    }
  });
  return 0;
}

}  // namespace linea::fuzz
