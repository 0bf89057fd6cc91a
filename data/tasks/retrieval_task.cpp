#include "data/tasks/retrieval_task.h"

#include "base/error.h"
#include "base/random.h"

namespace linea {
namespace {

constexpr int64_t kDefaultAssociations = 20;
// Keeps the bias of random_below small and tokens and positions far from the ends of their types.
constexpr int64_t kMaxAssociations = int64_t{1} << 20;
constexpr int64_t kRetrievalEvalRows = 1000;

class RetrievalTask : public Task {
 public:
  RetrievalTask(const TaskShape& shape, bool repeat, uint64_t seed)
      : Task(shape), repeat_(repeat), seed_(seed) {}

  // Every example is new.
  Batch train_rows(uint64_t seed, uint64_t first_example, int64_t rows) const override {
    Batch batch = blank(rows);
    for (int64_t row = 0; row < rows; ++row)
      put({seed, Purpose::task, task_stream::kRetrievalTrain,
           first_example + static_cast<uint64_t>(row)},
          batch, row);
    return batch;
  }

  int64_t rows(Split) const override { return kRetrievalEvalRows; }

  Batch eval_batch(Split split, int64_t first_row, int64_t rows) const override {
    check_eval_rows(*this, split, first_row, rows);
    Batch batch = blank(rows);
    const uint32_t stream_id = task_stream::kRetrievalEval + static_cast<uint32_t>(split);
    for (int64_t row = 0; row < rows; ++row)
      put({seed_, Purpose::task, stream_id, static_cast<uint64_t>(first_row + row)}, batch, row);
    return batch;
  }

 private:
  int64_t writes() const { return length() - 1; }

  Batch blank(int64_t rows) const {
    Batch batch = blank_batch(rows, length(), 0);
    batch.second_inputs.assign(batch.inputs.size(), static_cast<int32_t>(vocab_size()));
    return batch;
  }

  // Fills `row` with the numbers of a stream: of the keys, the values and the queried write.
  void put(const RandomStream& stream, Batch& batch, int64_t row) const {
    int32_t* keys = batch.inputs.data() + row * length();
    int32_t* values = batch.second_inputs.data() + row * length();
    sample_tokens(stream, 0, keys);
    sample_tokens(stream, writes(), values);
    const auto queried =
        random_below(stream, static_cast<uint64_t>(2 * writes()), static_cast<uint32_t>(writes()));
    const int32_t query = keys[queried];
    int64_t last = writes() - 1;
    while (keys[last] != query) --last;
    keys[writes()] = query;
    batch.targets[static_cast<size_t>(row * length() + writes())] = values[last];
  }

  // One token below vocab_size() for each write: with repetition, or a shuffle that grows by one
  // token at a time (Fisher and Yates, inside out), in which all permutations are equally likely.
  void sample_tokens(const RandomStream& stream, int64_t first_index, int32_t* tokens) const {
    for (int64_t i = 0; i < writes(); ++i) {
      const auto index = static_cast<uint64_t>(first_index + i);
      if (repeat_) {
        const auto count = static_cast<uint32_t>(vocab_size());
        tokens[i] = static_cast<int32_t>(random_below(stream, index, count));
      } else {
        const auto slot = random_below(stream, index, static_cast<uint32_t>(i + 1));
        tokens[i] = tokens[slot];
        tokens[slot] = static_cast<int32_t>(i);
      }
    }
  }

  bool repeat_;
  uint64_t seed_;
};

TaskShape retrieval_shape(const TaskOptions& options) {
  const int64_t associations = options.settings.integer("associations");
  const int64_t writes = options.settings.flag("repeat_keys") ? 2 * associations : associations;
  TaskShape shape;
  shape.vocab_size = associations;
  shape.input_vocab_size = associations;
  shape.second_vocab_size = associations + 1;
  shape.length = writes + 1;
  return shape;
}

}  // namespace

TaskEntry retrieval_task() {
  using namespace declare;
  return {"retrieval",
          "write key-value pairs into a memory, then ask for one of them",
          {changing(MayChange::never,
                    integer("associations", kDefaultAssociations, {1, kMaxAssociations},
                            "number of distinct keys and of values")),
           flag("repeat_keys", "write keys again; the last value counts")},
          [](const TaskOptions& options) {
            return std::make_unique<RetrievalTask>(
                retrieval_shape(options), options.settings.flag("repeat_keys"), options.seed);
          },
          retrieval_shape,
          false,
          "associations",
          true};
}

}  // namespace linea
