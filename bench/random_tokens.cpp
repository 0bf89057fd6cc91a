#include "bench/random_tokens.h"

#include "base/error.h"
#include "base/random.h"

namespace linea::bench {

Batch RandomTokens::train_rows(uint64_t seed, uint64_t first_example, int64_t rows) const {
  Batch batch = blank_batch(rows, length(), 0);
  const bool answers = shape().answer_tokens > 0;
  const int64_t read = answers ? input_vocab_size() - 1 : vocab_size();
  for (int64_t row = 0; row < rows; ++row) {
    const RandomStream stream{seed, Purpose::test, 0, first_example + static_cast<uint64_t>(row)};
    const auto token = [&](int64_t index, int64_t count) {
      return static_cast<int32_t>(
          random_below(stream, static_cast<uint64_t>(index), static_cast<uint32_t>(count)));
    };
    for (int64_t i = 0; i < length(); ++i) {
      const auto at = static_cast<size_t>(row * length() + i);
      batch.inputs[at] = token(i, read);
      if (!answers) batch.targets[at] = token(i + 1, read);
      if (shape().second_vocab_size > 0)
        batch.second_inputs.push_back(token(length() + 1 + i, read));
    }
    if (answers)
      put_answer(shape(), length() - shape().answer_tokens, static_cast<int32_t>(read),
                 token(length(), vocab_size()), batch, row);
  }
  return batch;
}

Batch RandomTokens::eval_batch(Split split, int64_t, int64_t) const {
  fail(ErrorKind::usage, "random tokens have no {} split", split_name(split));
}

}  // namespace linea::bench
