// The state.json of a checkpoint, as a resumed run reads it.
#include "tests/fuzz/checkpoint_folder.h"
#include "tests/fuzz/targets.h"

namespace linea::fuzz {

int fuzz_state(const uint8_t* data, size_t size) {
  static CheckpointFolder folder;
  expect_value_or_error(size, [&] { folder.restore_with("state.json", to_string(data, size)); });
  return 0;
}

}  // namespace linea::fuzz
