#include "bench/random_tokens.h"

#include "base/error.h"
#include "base/random.h"

namespace linea::bench {

Batch RandomTokens::train_batch(uint64_t seed, uint64_t step, int64_t rows) const {
  const RandomStream stream{seed, Purpose::test, 0, step};
  Batch batch = blank_batch(rows, length(), 0);
  const auto token = [&](size_t index, int64_t count) {
    return static_cast<int32_t>(random_below(stream, index, static_cast<uint32_t>(count)));
  };
  const size_t all = batch.inputs.size();
  const bool answers = shape().answer_tokens > 0;
  const int64_t read = answers ? input_vocab_size() - 1 : vocab_size();
  for (size_t i = 0; i < all; ++i) {
    batch.inputs[i] = token(i, read);
    if (!answers) batch.targets[i] = token(i + 1, read);
    if (shape().second_vocab_size > 0) batch.second_inputs.push_back(token(all + 1 + i, read));
  }
  for (int64_t row = 0; answers && row < rows; ++row)
    put_answer(shape(), length() - shape().answer_tokens, static_cast<int32_t>(read),
               token(all + static_cast<size_t>(row), vocab_size()), batch, row);
  return batch;
}

Batch RandomTokens::eval_batch(Split split, int64_t, int64_t) const {
  fail(ErrorKind::usage, "random tokens have no {} split", split_name(split));
}

}  // namespace linea::bench
