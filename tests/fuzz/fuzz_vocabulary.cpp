// What a checkpoint holds of a text's tokens, or of the names of classes.
#include "data/tasks/image_folder_task.h"
#include "data/vocabulary.h"
#include "tests/fuzz/promise.h"
#include "tests/fuzz/targets.h"

namespace linea::fuzz {

int fuzz_vocabulary(const uint8_t* data, size_t size) {
  const std::string text = to_string(data, size);
  expect_value_or_error(size, [&] {
    const Vocabulary vocabulary = Vocabulary::parse(text);
    expect(vocabulary.size() >= 1 && vocabulary.start_token() < vocabulary.size(),
           "the start is no token");
    const Vocabulary again = Vocabulary::parse(vocabulary.serialize());
    expect(again.difference_from(vocabulary).empty(), "it changes when it is written and read");
    vocabulary.decode({0});
  });
  expect_value_or_error(size, [&] { parse_classes(text); });
  return 0;
}

}  // namespace linea::fuzz
