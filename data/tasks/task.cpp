#include "data/tasks/task.h"

#include <algorithm>

#include "base/error.h"
#include "base/random.h"
#include "data/tasks/builtin.h"
#include "data/tasks/image_folder_task.h"

namespace linea {
namespace {

std::vector<TaskEntry>& registry() {
  static std::vector<TaskEntry> entries = builtin_tasks();
  return entries;
}

const TaskEntry& prepare(TaskOptions& options) {
  const TaskEntry& entry = find_task(options.name);
  require(entry.has_vocabulary || options.vocabulary.empty(), "task {} has no vocabulary",
          options.name);
  options.settings = complete_settings(options);
  return entry;
}

}  // namespace

void register_task(TaskEntry entry) {
  for (const TaskEntry& other : registry())
    require(other.name != entry.name, "there is a task '{}' already; choose another name",
            entry.name);
  registry().push_back(std::move(entry));
}

const std::vector<TaskEntry>& tasks() { return registry(); }

std::vector<std::string> task_names() {
  std::vector<std::string> names;
  for (const TaskEntry& entry : tasks()) names.push_back(entry.name);
  return names;
}

const TaskEntry& find_task(const std::string& name) { return find_named("task", tasks(), name); }

Settings complete_settings(const TaskOptions& options) {
  return complete(find_task(options.name).settings, options.settings, "task " + options.name);
}

std::unique_ptr<Task> make_task(TaskOptions options) {
  const TaskEntry& entry = prepare(options);
  return entry.make(options);
}

TaskShape task_shape(TaskOptions options) {
  const TaskEntry& entry = prepare(options);
  return entry.shape(options);
}

std::vector<std::string> class_names(const std::string& task, const std::string& vocabulary) {
  if (!vocabulary.empty() && is_class_list(vocabulary)) return parse_classes(vocabulary);
  return find_task(task).class_names;
}

std::string numbered(const std::vector<std::string>& names, size_t shown) {
  std::vector<std::string> parts;
  for (size_t i = 0; i < std::min(names.size(), shown); ++i)
    parts.push_back(fmt::format("{} {}", i, names[i]));
  if (names.size() > shown) parts.push_back(fmt::format("and {} more", names.size() - shown));
  return fmt::format("{}", fmt::join(parts, ", "));
}

Setting data_setting(const std::string& help) {
  Setting setting = declare::text("data", "", help);
  setting.affects_training = false;  // the data's checksum decides
  return setting;
}

Setting answer_setting() {
  using namespace declare;
  return of_model(integer("answer_tokens", 1, {1, 1024},
                          "tokens after a sequence, the last of which has the answer"));
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

void put_answer(const TaskShape& shape, int64_t tokens, int32_t answer, int32_t class_number,
                Batch& batch, int64_t row) {
  const int64_t end = tokens + shape.answer_tokens, first = row * batch.length;
  std::fill(batch.inputs.begin() + first + tokens, batch.inputs.begin() + first + end, answer);
  batch.targets[static_cast<size_t>(first + end - 1)] = class_number;
  batch.lengths.resize(static_cast<size_t>(batch.rows), static_cast<int32_t>(batch.length));
  batch.lengths[static_cast<size_t>(row)] = static_cast<int32_t>(end);
}

int64_t shuffled_example(uint64_t seed, uint64_t g, int64_t count) {
  const auto examples = static_cast<uint64_t>(count);
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
