// A text: the vocabulary that it gives encodes it, and gives it back. Its kind can be looked for,
// and it can be written as UTF-8.
#include "data/readers/file_kind.h"
#include "data/utf8.h"
#include "data/vocabulary.h"
#include "tests/fuzz/promise.h"
#include "tests/fuzz/targets.h"

namespace linea::fuzz {

int fuzz_text(const uint8_t* data, size_t size) {
  const std::string text = to_string(data, size);
  expect_value_or_error(size, [&] {
    const Vocabulary vocabulary = Vocabulary::from_text(text, "a text");
    expect(vocabulary.decode(vocabulary.encode(text)) == text, "decoding gives another text");
    expect(Vocabulary::parse(vocabulary.serialize()).difference_from(vocabulary).empty(),
           "the vocabulary changes when it is written and read");
  });
  expect_value_or_error(size, [&] {
    ByWord<int64_t> counts;
    WordSplitter splitter([&](std::string_view word) { ++counts[std::string(word)]; });
    splitter.add(text);
    splitter.finish();
    const Vocabulary pairs = Vocabulary::of_pairs(BytePairs(learn_byte_pairs(counts, 300)));
    expect(pairs.decode(pairs.encode(text)) == text, "decoding byte pairs gives another text");
    foreign_kind(text, text.size());
    encoding_hint(text);
    const std::string valid = valid_utf8(text);
    expect(first_non_utf8(valid) == valid.size(), "what is written is not UTF-8");
    expect(valid_utf8(valid) == valid, "what is UTF-8 changes");
  });
  // Tokens that this vocabulary may not have.
  expect_value_or_error(size,
                        [&] { Vocabulary::from_text("a\xC3\xA9\n", "another text").encode(text); });
  return 0;
}

}  // namespace linea::fuzz
