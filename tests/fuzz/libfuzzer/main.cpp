// What libFuzzer calls, for the target that this program is built for.
#include "tests/fuzz/targets.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return linea::fuzz::LINEA_FUZZ_TARGET(data, size);
}
