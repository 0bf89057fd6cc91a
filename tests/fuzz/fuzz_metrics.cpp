// The metrics.jsonl of a resumed run: a line cut by a kill is dropped.
#include "tests/fuzz/promise.h"
#include "tests/fuzz/targets.h"
#include "train/record/metrics.h"

namespace linea::fuzz {

int fuzz_metrics(const uint8_t* data, size_t size) {
  static const ScratchFolder folder;
  const std::filesystem::path path = folder.path() / "metrics.jsonl";
  put_file(path, to_string(data, size));
  expect_value_or_error(size, [&] {
    const Metrics metrics(path, 100, false);
    for (const auto& [step, validation] : metrics.validations())
      expect(step <= 100, "a line of a later step is left");
  });
  return 0;
}

}  // namespace linea::fuzz
