// The optimizer.safetensors of a checkpoint, as a resumed run reads it.
#include "tests/fuzz/checkpoint_folder.h"
#include "tests/fuzz/targets.h"

namespace linea::fuzz {

int fuzz_optimizer(const uint8_t* data, size_t size) {
  static CheckpointFolder folder;
  expect_value_or_error(
      size, [&] { folder.restore_with("optimizer.safetensors", to_string(data, size)); });
  return 0;
}

}  // namespace linea::fuzz
