#include "train/inference/given_images.h"

#include <algorithm>
#include <charconv>
#include <memory>

#include "data/readers/image_file.h"
#include "data/tasks/image_task.h"

namespace linea {
namespace {

// "test:7" -> the split and 7; false for other names.
bool parse_data_name(const std::string& name, Split& split, int64_t& number) {
  const size_t colon = name.find(':');
  if (colon == std::string::npos || colon + 1 == name.size()) return false;
  const char *begin = name.data() + colon + 1, *end = name.data() + name.size();
  const auto [rest, problem] = std::from_chars(begin, end, number);
  if (problem != std::errc() || rest != end) return false;
  for (const Split candidate : {Split::train, Split::val, Split::test}) {
    split = candidate;
    if (name.compare(0, colon, split_name(candidate)) == 0) return true;
  }
  return false;
}

GivenImage from_data(const std::string& name, const Task& task, Split split, int64_t number) {
  require(number >= 0 && number < task.rows(split), "{}: the {} split has images 0 to {}", name,
          split_name(split), task.rows(split) - 1);
  const Batch batch = task.eval_batch(split, number, 1);
  return {name, batch.inputs[0], batch.targets};
}

GivenImage from_file(const std::string& name, const TaskShape& shape, int64_t class_label) {
  GivenImage image{name, shape.start, {}};
  for (const uint8_t gray : read_image(name, shape.side, shape.channels))
    image.tokens.push_back(gray_to_token(gray, shape.levels));
  require(shape.classes == 0 || class_label >= 0,
          "{}: this model needs a class, 0 to {}; choose it with `class`", name, shape.classes - 1);
  return image;
}

}  // namespace

void require_class(const TaskShape& shape, int64_t class_label) {
  if (class_label == -1) return;
  require(shape.classes > 0, "`class` {}: this model was not trained with `class_token`",
          class_label);
  require(class_label >= 0 && class_label < shape.classes, "`class` is {}; there are 0 to {}",
          class_label, shape.classes - 1);
}

int64_t find_class(const SavedModel& saved, const std::string& name) {
  const std::vector<std::string> names = class_names(saved.config.task, saved.vocabulary);
  require(saved.shape.classes > 0, "`class` {}: this model was not trained with `class_token`",
          name);
  const auto found = std::find(names.begin(), names.end(), name);
  if (found != names.end()) return found - names.begin();
  int64_t number = -1;
  const char* end = name.data() + name.size();
  const auto [rest, problem] = std::from_chars(name.data(), end, number);
  const bool is_number = problem == std::errc() && rest == end;
  constexpr size_t kShown = 20;
  require(is_number && number >= 0 && number < saved.shape.classes,
          "`class` is {}; there are 0 to {}{}", name, saved.shape.classes - 1,
          names.empty() ? "" : ": " + numbered(names, kShown));
  return number;
}

namespace {

// `task` is created when it is first needed.
std::vector<GivenImage> read_images(const std::vector<std::string>& names, const SavedModel& saved,
                                    int64_t class_label, std::unique_ptr<Task> task) {
  std::vector<GivenImage> images;
  for (const std::string& name : names) {
    Split split = Split::test;
    int64_t number = 0;
    if (parse_data_name(name, split, number)) {
      if (!task) task = make_saved_task(task_options(saved.config, saved.vocabulary));
      images.push_back(from_data(name, *task, split, number));
    } else {
      images.push_back(from_file(name, saved.shape, class_label));
    }
    if (class_label >= 0)
      images.back().start = saved.shape.start + static_cast<int32_t>(class_label);
  }
  return images;
}

}  // namespace

std::vector<GivenImage> given_images(const std::vector<std::string>& names, const SavedModel& saved,
                                     int64_t class_label) {
  require_class(saved.shape, class_label);
  return read_images(names, saved, class_label, nullptr);
}

std::vector<GivenImage> first_test_images(std::optional<int64_t> count, int64_t default_count,
                                          const SavedModel& saved, int64_t class_label) {
  require_class(saved.shape, class_label);
  std::unique_ptr<Task> task = make_saved_task(task_options(saved.config, saved.vocabulary));
  const int64_t images = count.value_or(std::min(default_count, task->rows(Split::test)));
  std::vector<std::string> names;
  for (int64_t i = 0; i < images; ++i) names.push_back(fmt::format("test:{}", i));
  return read_images(names, saved, class_label, std::move(task));
}

}  // namespace linea
