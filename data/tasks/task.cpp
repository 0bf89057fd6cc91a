#include "data/tasks/task.h"

#include "data/tasks/cifar10_task.h"
#include "data/tasks/copy_task.h"
#include "data/tasks/digits.h"
#include "data/tasks/image_folder_task.h"
#include "data/tasks/mnist_task.h"
#include "data/tasks/retrieval_task.h"
#include "data/tasks/text_task.h"
#include "tensor/error.h"
#include "tensor/random.h"

namespace linea {
namespace {

struct TaskKind {
  const char* name;
  std::unique_ptr<Task> (*make)(const TaskOptions&);
  TaskShape (*shape)(const TaskOptions&);
  enum { tokens, gray, colors } images = tokens;
};

constexpr TaskKind kTaskKinds[] = {
    {"digits", make_digits_task, digits_shape, TaskKind::gray},
    {"mnist", make_mnist_task, mnist_shape, TaskKind::gray},
    {"cifar10", make_cifar10_task, cifar10_shape, TaskKind::colors},
    {"images", make_image_folder_task, image_folder_shape, TaskKind::colors},
    {"text", make_text_task, text_shape},
    {"copy", make_copy_task, copy_shape},
    {"retrieval", make_retrieval_task, retrieval_shape},
};

const TaskKind& find_kind(const TaskOptions& options) {
  for (const TaskKind& kind : kTaskKinds) {
    if (options.task != kind.name) continue;
    // Refused here, in one place, because few tasks know these.
    require(kind.make == make_retrieval_task || (options.associations == 0 && !options.repeat),
            "task {} has no associations and no repeated keys; leave them out or choose task "
            "retrieval",
            options.task);
    require(kind.images != TaskKind::tokens || !options.flip,
            "task {} has no images to flip; leave --flip out", options.task);
    require(kind.images == TaskKind::colors || options.channels == 0 ||
                (kind.images == TaskKind::gray && options.channels == 1),
            "task {} has no {} channels; leave --channels out", options.task, options.channels);
    require(kind.make == make_text_task || !options.bytes,
            "task {} reads no text; leave --bytes out", options.task);
    return kind;
  }
  fail(ErrorKind::usage, "there is no task '{}'; choose one of {}", options.task, task_names());
}

}  // namespace

std::unique_ptr<Task> make_task(const TaskOptions& options) {
  return find_kind(options).make(options);
}

TaskShape task_shape(const TaskOptions& options) { return find_kind(options).shape(options); }

std::string task_names() {
  std::string names;
  for (const TaskKind& kind : kTaskKinds)
    names += (names.empty() ? "" : ", ") + std::string(kind.name);
  return names;
}

const char* split_name(Split split) {
  switch (split) {
    case Split::train:
      return "train";
    case Split::val:
      return "val";
    case Split::test:
      return "test";
  }
  return "unknown";
}

Batch blank_batch(int64_t rows, int64_t length, int32_t token) {
  require(rows >= 1, "a batch of {} rows; it needs at least 1", rows);
  const auto tokens = static_cast<size_t>(rows * length);
  Batch batch;
  batch.rows = rows;
  batch.length = length;
  batch.inputs.assign(tokens, token);
  batch.targets.assign(tokens, kNotScored);
  return batch;
}

uint64_t example_number(uint64_t step, int64_t rows, int64_t row) {
  return step * static_cast<uint64_t>(rows) + static_cast<uint64_t>(row);
}

int64_t shuffled_example(uint64_t seed, uint64_t step, int64_t rows, int64_t row, int64_t count) {
  const auto examples = static_cast<uint64_t>(count);
  const uint64_t g = example_number(step, rows, row);
  const RandomStream epoch{seed, Purpose::shuffle, 0, g / examples};
  return static_cast<int64_t>(random_permutation(epoch, examples, g % examples));
}

void check_eval_rows(const Task& task, Split split, int64_t first_row, int64_t rows) {
  const int64_t count = task.rows(split);
  require(first_row >= 0 && rows >= 1 && rows <= count - first_row,
          "{} rows from row {} of the {} split, which has {} rows", rows, first_row,
          split_name(split), count);
}

}  // namespace linea
