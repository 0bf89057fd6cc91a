#include "data/tasks/copy_task.h"

#include "base/error.h"
#include "base/random.h"

namespace linea {
namespace {

constexpr int64_t kDefaultTokens = 10, kMaxTokens = 65535;
constexpr int64_t kDefaultCopyLength = 128;
constexpr int64_t kMaxCopyLength = int64_t{1} << 24;
constexpr int64_t kCopyEvalRows = 1000;

class CopyTask : public Task {
 public:
  CopyTask(const TaskShape& shape, uint64_t seed) : Task(shape), seed_(seed) {}

  // Every row of every step is new.
  Batch train_rows(uint64_t seed, uint64_t first_example, int64_t rows) const override {
    Batch batch = blank_batch(rows, length(), shape().start);
    for (int64_t row = 0; row < rows; ++row)
      put({seed, Purpose::task, task_stream::kCopyTrain,
           first_example + static_cast<uint64_t>(row)},
          batch, row);
    return batch;
  }

  int64_t rows(Split) const override { return kCopyEvalRows; }

  Batch eval_batch(Split split, int64_t first_row, int64_t rows) const override {
    check_eval_rows(*this, split, first_row, rows);
    Batch batch = blank_batch(rows, length(), shape().start);
    const uint32_t stream_id = task_stream::kCopyEval + static_cast<uint32_t>(split);
    for (int64_t row = 0; row < rows; ++row)
      put({seed_, Purpose::task, stream_id, static_cast<uint64_t>(first_row + row)}, batch, row);
    return batch;
  }

 private:
  // Fills `row` with the tokens of a stream.
  void put(const RandomStream& stream, Batch& batch, int64_t row) const {
    const int64_t n = length() / 2 - 1;
    const auto tokens = static_cast<uint32_t>(shape().start);  // the separator follows them
    int32_t* inputs = batch.inputs.data() + row * length();
    int32_t* targets = batch.targets.data() + row * length();
    for (int64_t i = 1; i <= n; ++i) {
      const auto token =
          static_cast<int32_t>(random_below(stream, static_cast<uint64_t>(i), tokens));
      inputs[i] = token;
      inputs[n + 1 + i] = token;
      targets[n + i] = token;
    }
  }

  uint64_t seed_;
};

TaskShape copy_shape(const TaskOptions& options) {
  const int64_t length = options.settings.integer("length");
  require(length >= 4 && length <= kMaxCopyLength && length % 2 == 0,
          "`length` is {}; copy needs an even length from 4 to {}", length, kMaxCopyLength);
  TaskShape shape;
  const int64_t tokens = options.settings.integer("copy_tokens");
  shape.vocab_size = tokens + 1;
  shape.input_vocab_size = tokens + 1;
  shape.length = length;
  shape.start = static_cast<int32_t>(tokens);
  return shape;
}

}  // namespace

TaskEntry copy_task() {
  using namespace declare;
  return {"copy",
          "repeat a random string after having seen it",
          {of_model(integer("length", kDefaultCopyLength, at_least(1), "tokens of a sequence")),
           changing(MayChange::never, integer("copy_tokens", kDefaultTokens, {2, kMaxTokens},
                                              "tokens that a string is made of"))},
          [](const TaskOptions& options) {
            return std::make_unique<CopyTask>(copy_shape(options), options.seed);
          },
          copy_shape,
          false,
          "length"};
}

}  // namespace linea
