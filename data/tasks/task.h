// A task turns images, a text or a rule into batches of token sequences.
// A training batch is a pure function of (seed, step): example g = step * rows + row is image or
// window random_permutation(epoch)(g mod count) with epoch = g / count. Every epoch visits every
// example once, in its own order, and resuming needs no hidden state.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace linea {

enum class Split { train, val, test };

// rows x length, row-major. inputs[t] is what the model reads before it predicts targets[t];
// target -1 is not scored. Where the shape has a second_vocab_size, second_inputs[t] is a second
// token that the model reads together with inputs[t]; elsewhere second_inputs is empty.
struct Batch {
  int64_t rows = 0, length = 0;
  std::vector<int32_t> inputs, targets, second_inputs;
};

constexpr int32_t kNotScored = -1;

// What the user chose; 0 and "" stand for the task's default.
struct TaskOptions {
  std::string task;          // a name from task_names()
  std::string data;          // a folder of images, a file of text
  int64_t length = 0;        // tokens in a sequence (text, copy)
  int64_t size = 0;          // side of a image in pixels
  int64_t levels = 0;        // gray levels of a image
  int64_t channels = 0;      // of a image that has colors: 3, or 1 for gray (cifar10, images)
  bool flip = false;         // training images may be mirrored, left to right
  int64_t count = 0;         // training images (digits)
  bool class_token = false;  // a image starts with its label instead of the start token
  int64_t associations = 0;  // keys, and values, that there are (retrieval)
  bool repeat = false;       // keys are written again, the last value counts (retrieval)
  uint64_t seed = 0;         // of made-up data; the order of training has a seed of its own
  bool bytes = false;        // the tokens are the 256 bytes, whatever the file holds (text)
  std::string
      vocabulary;  // what Task::serialized_vocabulary() gave, empty to build it from the data
};

// What a model and a sampler need to know of a task, without its data.
struct TaskShape {
  int64_t vocab_size = 0;        // tokens that can be predicted
  int64_t input_vocab_size = 0;  // the same, plus the start token or one token for each class
  int64_t length = 0;
  int32_t start = 0;     // inputs[0] of a sequence; with classes: start + label
  int64_t side = 0;      // images of side x side pixels, 0 for other tasks
  int64_t channels = 0;  // tokens of a pixel: 1 gray, 3 red, green and blue; 0 for other tasks
  int64_t levels = 0;    // of a token of a image, 0 for other tasks
  int64_t classes = 0;   // 0 without a class token
  int64_t second_vocab_size = 0;  // tokens of Batch::second_inputs, 0 without a second stream
};

class Task {
 public:
  virtual ~Task() = default;

  const TaskShape& shape() const { return shape_; }
  int64_t vocab_size() const { return shape_.vocab_size; }
  int64_t input_vocab_size() const { return shape_.input_vocab_size; }
  int64_t length() const { return shape_.length; }

  virtual Batch train_batch(uint64_t seed, uint64_t step, int64_t rows) const = 0;

  // Whether there is such a split: a text has no test. Asking more of one that is not there is an
  // error.
  virtual bool has(Split) const { return true; }

  // A split is rows(split) sequences that score each of its tokens exactly once.
  virtual int64_t rows(Split split) const = 0;
  virtual Batch eval_batch(Split split, int64_t first_row, int64_t rows) const = 0;

  // The SHA-256 of what training reads; "" for made-up data, which the settings say all of.
  virtual std::string fingerprint() const { return ""; }

  // What TaskOptions::vocabulary takes, so that a checkpoint can be used without data: the tokens
  // of a text, the names of the classes of images from a folder. Empty for other tasks.
  virtual std::string serialized_vocabulary() const { return ""; }

  // What the user should hear of the data, such as files that were left out.
  virtual std::vector<std::string> notes() const { return {}; }

 protected:
  explicit Task(const TaskShape& shape) : shape_(shape) {}

 private:
  TaskShape shape_;
};

// Reads or makes the data.
std::unique_ptr<Task> make_task(const TaskOptions& options);

// Needs no data; a text, and images from a folder with a class token, need
// TaskOptions::vocabulary.
TaskShape task_shape(const TaskOptions& options);

// "digits, mnist, cifar10, images, text, copy, retrieval"
std::string task_names();

const char* split_name(Split split);

// For the tasks themselves.

// Purpose::task has one lane for each kind of made-up data.
namespace task_lane {
constexpr uint32_t kCopyTrain = 0, kCopyEval = 1;  // kCopyEval + split
constexpr uint32_t kDigitStrokes = 8, kDigitLabels = 9;
constexpr uint32_t kFlip = 10;
constexpr uint32_t kRetrievalTrain = 16, kRetrievalEval = 17;  // kRetrievalEval + split
}  // namespace task_lane

// An unscored batch of `rows` x `length`, all inputs `token`.
Batch blank_batch(int64_t rows, int64_t length, int32_t token);

// g of row `row` of training step `step`.
uint64_t example_number(uint64_t step, int64_t rows, int64_t row);

// The example in row `row` of training step `step`, out of `count`.
int64_t shuffled_example(uint64_t seed, uint64_t step, int64_t rows, int64_t row, int64_t count);

// Refuses rows outside of [0, task.rows(split)).
void check_eval_rows(const Task& task, Split split, int64_t first_row, int64_t rows);

}  // namespace linea
