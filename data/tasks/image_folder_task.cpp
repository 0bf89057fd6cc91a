#include "data/tasks/image_folder_task.h"

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <utility>

#include "data/json.h"
#include "data/readers/image_folder.h"
#include "data/tasks/image_task.h"
#include "tensor/error.h"

namespace linea {
namespace {

using nlohmann::json;

constexpr int64_t kDefaultSide = 32, kMaxSide = 1024, kColors = 3;

class ImagesTask : public Task {
 public:
  ImagesTask(const TaskShape& shape, ImageFolder folder, const TaskOptions& options)
      : Task(shape),
        classes_(std::move(folder.classes)),
        notes_(std::move(folder.notes)),
        images_(make_image_task(shape, std::move(folder.splits), options)) {}

  Batch train_batch(uint64_t seed, uint64_t step, int64_t rows) const override {
    return images_->train_batch(seed, step, rows);
  }
  int64_t rows(Split split) const override { return images_->rows(split); }
  Batch eval_batch(Split split, int64_t first_row, int64_t rows) const override {
    return images_->eval_batch(split, first_row, rows);
  }
  std::string fingerprint() const override { return images_->fingerprint(); }
  std::string serialized_vocabulary() const override {
    return classes_.empty() ? "" : serialize_classes(classes_);
  }
  std::vector<std::string> notes() const override { return notes_; }

 private:
  std::vector<std::string> classes_, notes_;
  std::unique_ptr<Task> images_;
};

}  // namespace

std::string serialize_classes(const std::vector<std::string>& names) {
  try {
    return dump_json(json{{"kind", "classes"}, {"names", names}});
  } catch (const json::type_error&) {
    fail(ErrorKind::input, "the name of a class is not UTF-8; rename its folder");
  }
}

bool is_class_list(const std::string& vocabulary) {
  const json document = parse_json(vocabulary);
  return document.is_object() && document.contains("kind") && document["kind"] == "classes";
}

std::vector<std::string> parse_classes(const std::string& vocabulary) {
  const json document = parse_json(vocabulary);
  std::vector<std::string> names;
  if (is_class_list(vocabulary) && document.contains("names") && document["names"].is_array())
    for (const json& name : document["names"])
      if (name.is_string()) names.push_back(name.get<std::string>());
  const bool ascends =
      std::adjacent_find(names.begin(), names.end(), std::greater_equal<>()) == names.end();
  if (names.empty() || static_cast<int64_t>(names.size()) > kMaxImageClasses || !ascends ||
      names.size() != document["names"].size())
    fail(ErrorKind::input, "the names of the classes are damaged; use another checkpoint");
  return names;
}

TaskShape image_folder_shape(const TaskOptions& options) {
  const int64_t side = options.size == 0 ? kDefaultSide : options.size;
  require(side >= 1 && side <= kMaxSide, "images of size {}; choose 1 to {}", side, kMaxSide);
  require(options.count == 0, "task images takes the images that are there; leave the count {} out",
          options.count);
  require(!options.class_token || !options.vocabulary.empty(),
          "the shape of task images with a class token needs the names of the classes");
  const int64_t classes =
      options.class_token ? static_cast<int64_t>(parse_classes(options.vocabulary).size()) : 0;
  TaskOptions rest = options;
  if (options.class_token) rest.vocabulary.clear();
  return image_shape(rest, side, options.channels == 0 ? kColors : options.channels, classes);
}

std::unique_ptr<Task> make_image_folder_task(const TaskOptions& options) {
  require(!options.data.empty(),
          "task images reads files; name the folder that holds them with --data");
  TaskOptions checked = options;  // before the long work: a shape with any class
  if (options.class_token && options.vocabulary.empty())
    checked.vocabulary = serialize_classes({"class"});
  const TaskShape draft = image_folder_shape(checked);
  std::vector<std::string> known;
  if (options.class_token && !options.vocabulary.empty()) known = parse_classes(options.vocabulary);
  ImageFolder folder =
      read_image_folder(options.data, draft.side, draft.channels,
                        options.class_token ? Labels::folders : Labels::none, known);
  for (const ImageSet* set : {&folder.splits.train, &folder.splits.val, &folder.splits.test})
    if (set->count() == 0)
      fail(ErrorKind::input, "{}: too few of its images can be read for train, val and test",
           options.data);
  if (options.class_token) checked.vocabulary = serialize_classes(folder.classes);
  return std::make_unique<ImagesTask>(image_folder_shape(checked), std::move(folder), options);
}

}  // namespace linea
