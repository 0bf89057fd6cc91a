// A file of settings, checked as a run checks them; what can be written is the same when it is read
// again.
#include "tests/fuzz/promise.h"
#include "tests/fuzz/targets.h"
#include "train/config.h"

namespace linea::fuzz {

int fuzz_toml(const uint8_t* data, size_t size) {
  const std::string text = to_string(data, size);
  RunConfig config;
  bool is_read = false;
  expect_value_or_error(size, [&] {
    config = config_from_toml(text, "some.toml");
    is_read = true;
  });
  if (!is_read) return 0;
  expect_value_or_error(size, [&] { check_settings(config); });
  expect_value_or_error(size, [&] { task_shape(task_options(config, "")); });
  std::string written;
  expect_value_or_error(size, [&] { written = to_toml(config); });
  if (!written.empty())  // else a name holds what no file of settings can
    expect(to_toml(config_from_toml(written, "its own")) == written,
           "it changes when it is written and read");
  return 0;
}

}  // namespace linea::fuzz
