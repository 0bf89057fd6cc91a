// A task turns images, a text or a rule into batches of token sequences.
// A training example is a pure function of (seed, g), whatever batches it comes in: image or window
// random_permutation(epoch)(g mod count) with epoch = g / count. Every epoch visits every example
// once, in its own order, and resuming needs no hidden state.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/settings.h"

namespace linea {

enum class Split { train, val, test };

// rows x length, row-major. inputs[t] is what the model reads before it predicts targets[t];
// target -1 is not scored. Where the shape has a second_vocab_size, second_inputs[t] is a second
// token that the model reads together with inputs[t]; elsewhere second_inputs is empty. Where
// sequences have lengths of their own, what follows the first lengths[row] tokens is padding.
struct Batch {
  int64_t rows = 0, length = 0;
  std::vector<int32_t> inputs, targets, second_inputs;
  std::vector<int32_t> lengths{};  // of the rows; empty: all are `length`
};

constexpr int32_t kNotScored = -1;

struct TaskOptions {
  std::string name;          // one of tasks()
  Settings settings{};       // its own (TaskEntry::settings); what is missing has its default
  uint64_t seed = 0;         // of generated data; the order of training has a seed of its own
  std::string vocabulary{};  // Task::serialized_vocabulary(); empty to build it from the data
};

// Facts of a task that models and samplers need, without its data.
struct TaskShape {
  int64_t vocab_size = 0;  // tokens that can be predicted
  // vocab_size plus the start token, or one token for each class and one for none (no_class).
  int64_t input_vocab_size = 0;
  int64_t length = 0;
  int32_t start = 0;     // inputs[0] of a sequence; with classes: start + label
  int64_t side = 0;      // images of side x side pixels, 0 for other tasks
  int64_t channels = 0;  // tokens of a pixel: 1 gray, 3 red, green and blue; 0 for other tasks
  int64_t levels = 0;    // of a token of a image, 0 for other tasks
  int64_t classes = 0;   // 0 without a class token
  int32_t no_class =
      -1;  // inputs[0] instead of a class, where training drops some; -1: it does not
  // Tokens at the end of a sequence, the last of which predicts its class, one of vocab_size; the
  // other tokens are read alone. 0: sequences predict their own tokens.
  int64_t answer_tokens = 0;
  int64_t second_vocab_size = 0;       // tokens of Batch::second_inputs, 0 without a second stream
  std::vector<int32_t> token_bytes{};  // of a text: the bytes of each token; empty for other tasks
  bool byte_pairs = false;             // tokens are byte pairs, not characters or bytes
};

class Task {
 public:
  virtual ~Task() = default;

  const TaskShape& shape() const { return shape_; }
  int64_t vocab_size() const { return shape_.vocab_size; }
  int64_t input_vocab_size() const { return shape_.input_vocab_size; }
  int64_t length() const { return shape_.length; }

  // Training examples [first_example, first_example + rows).
  virtual Batch train_rows(uint64_t seed, uint64_t first_example, int64_t rows) const = 0;

  // Whether there is such a split: a text has no test. Asking more of one that is not there is an
  // error.
  virtual bool has(Split) const { return true; }

  // A split is rows(split) sequences that score each of its tokens exactly once.
  virtual int64_t rows(Split split) const = 0;
  virtual Batch eval_batch(Split split, int64_t first_row, int64_t rows) const = 0;

  // The SHA-256 of what training reads; "" for generated data, which the settings determine
  // completely.
  virtual std::string fingerprint() const { return ""; }

  // The text for TaskOptions::vocabulary, so that a checkpoint can be used without data: the tokens
  // of a text, the names of the classes of images from a folder. Empty for other tasks.
  virtual std::string serialized_vocabulary() const { return ""; }

  // Notes on the data for the user, such as files that were left out.
  virtual std::vector<std::string> notes() const { return {}; }

 protected:
  explicit Task(const TaskShape& shape) : shape_(shape) {}

 private:
  TaskShape shape_;
};

// One task, as `--task` names it.
struct TaskEntry {
  std::string name;
  std::string summary;  // one line
  Declarations settings;
  // Both get options with all settings that apply. `make` reads or makes the data; `shape` needs
  // none, but the vocabulary of a task that has one.
  std::function<std::unique_ptr<Task>(const TaskOptions&)> make;
  std::function<TaskShape(const TaskOptions&)> shape;
  bool has_vocabulary = false;
  std::string extent{};                    // the setting that makes sequences longer or shorter
  bool reads_pairs = false;                // a second token at each position, for a RetrievalModel
  std::vector<std::string> class_names{};  // in the order of their numbers, where data have none
};

// Adds a task to those of data/tasks/. Error: a name that is taken.
void register_task(TaskEntry entry);
// All tasks, in the order in which help lists them.
const std::vector<TaskEntry>& tasks();
std::vector<std::string> task_names();
// Error: ErrorKind::usage naming the tasks that exist.
const TaskEntry& find_task(const std::string& name);

// All settings of `options`, those not given at their defaults. Error: those of `complete`.
Settings complete_settings(const TaskOptions& options);
std::unique_ptr<Task> make_task(TaskOptions options);
TaskShape task_shape(TaskOptions options);

const char* split_name(Split split);

// The names of the classes of images, in the order of their numbers; none where a number is all
// that there is. `vocabulary`: Task::serialized_vocabulary().
std::vector<std::string> class_names(const std::string& task, const std::string& vocabulary);
// "0 cat, 1 dog"; of more than `shown` names, how many more there are.
std::string numbered(const std::vector<std::string>& names, size_t shown);

// For the tasks themselves.

// `data`, of a task that reads files.
Setting data_setting(const std::string& help);
// `answer_tokens`, of a task with one answer.
Setting answer_setting();

// The stream ids of Purpose::task, one for each kind of generated data.
namespace task_stream {
constexpr uint32_t kCopyTrain = 0, kCopyEval = 1;  // kCopyEval + split
constexpr uint32_t kDigitStrokes = 8, kDigitLabels = 9;
constexpr uint32_t kFlip = 10, kClassDropout = 11;
constexpr uint32_t kRetrievalTrain = 16, kRetrievalEval = 17;  // kRetrievalEval + split
constexpr uint32_t kListops = 24;                              // + split
}  // namespace task_stream

// An unscored batch of `rows` x `length`, all inputs `token`.
Batch blank_batch(int64_t rows, int64_t length, int32_t token);

// After `tokens` tokens of row `row`: the answer tokens of `shape`, `answer` each, the last one
// with the class as target; and the row's length.
void put_answer(const TaskShape& shape, int64_t tokens, int32_t answer, int32_t class_number,
                Batch& batch, int64_t row);

// Which of `count` is training example g.
int64_t shuffled_example(uint64_t seed, uint64_t g, int64_t count);

// Refuses rows outside of [0, task.rows(split)).
void check_eval_rows(const Task& task, Split split, int64_t first_row, int64_t rows);

}  // namespace linea
