// The manifest of a checkpoint's folder, which holds one small model file.
#include "data/safetensors.h"
#include "tests/fuzz/promise.h"
#include "tests/fuzz/targets.h"
#include "train/run/checkpoint_files.h"

namespace linea::fuzz {

int fuzz_manifest(const uint8_t* data, size_t size) {
  static const ScratchFolder folder;
  static const WrittenFile model =
      write_safetensors(folder.path() / kModelFile, {}, {{"config", "task = \"copy\"\n"}});
  expect(model.bytes > 0, "the model's file is empty");
  put_file(folder.path() / "manifest.json", to_string(data, size));
  constexpr int64_t kStep = 7;
  expect_value_or_error(size, [&] { expect_one_line(checkpoint_problem({kStep, folder.path()})); });
  return 0;
}

}  // namespace linea::fuzz
