#include "data/tasks/image_folder_task.h"

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "data/json.h"
#include "data/one_line.h"
#include "data/readers/image_folder.h"
#include "data/tasks/image_task.h"
#include "data/utf8.h"

namespace linea {
namespace {

using json = nlohmann::json;

constexpr int64_t kDefaultSide = 32, kMaxSide = 1024;

class ImagesTask : public Task {
 public:
  ImagesTask(const TaskShape& shape, ImageFolder folder, const TaskOptions& options)
      : Task(shape),
        classes_(std::move(folder.classes)),
        notes_(std::move(folder.notes)),
        images_(make_image_task(shape, std::move(folder.splits), options)) {
    for (const std::string& note : images_->notes()) notes_.push_back(note);
  }

  Batch train_rows(uint64_t seed, uint64_t first_example, int64_t rows) const override {
    return images_->train_rows(seed, first_example, rows);
  }
  bool has(Split split) const override { return images_->rows(split) > 0; }
  int64_t rows(Split split) const override {
    require(has(split), "the images of `data` have no {} split: add a folder {} next to train",
            split_name(split), split_name(split));
    return images_->rows(split);
  }
  Batch eval_batch(Split split, int64_t first_row, int64_t rows) const override {
    check_eval_rows(*this, split, first_row, rows);
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
  for (const std::string& name : names)
    if (first_non_utf8(name) != name.size())
      fail(ErrorKind::input, "the name of class '{}' is not UTF-8; rename its folder",
           one_line(name));
  return dump_json(json{{"kind", "classes"}, {"names", names}});
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

namespace {

bool has_classes(const TaskOptions& options) {
  return options.settings.flag("class_token") || predicts_class(options);
}

TaskShape image_folder_shape(const TaskOptions& options) {
  const bool reads_classes = has_classes(options);
  require(!reads_classes || !options.vocabulary.empty(),
          "the shape of task images with classes needs the names of the classes");
  require(reads_classes || options.vocabulary.empty(),
          "task images without a class token has no vocabulary");
  const int64_t classes =
      reads_classes ? static_cast<int64_t>(parse_classes(options.vocabulary).size()) : 0;
  return image_shape(options, options.settings.integer("size"), image_channels(options), classes);
}

std::unique_ptr<Task> make_image_folder_task(const TaskOptions& options) {
  const std::string& data = options.settings.text("data");
  const bool reads_classes = has_classes(options);
  require(!data.empty(), "task images reads files; name the folder that holds them with `data`");
  TaskOptions checked = options;  // before the long work: a shape with any class
  if (reads_classes && options.vocabulary.empty())
    checked.vocabulary = serialize_classes({"class"});
  const TaskShape draft = image_folder_shape(checked);
  std::vector<std::string> known;
  if (reads_classes && !options.vocabulary.empty()) known = parse_classes(options.vocabulary);
  ImageFolder folder = read_image_folder(data, draft.side, draft.channels,
                                         reads_classes ? Labels::folders : Labels::none, known);
  for (const ImageSet* set : {&folder.splits.train, &folder.splits.val})
    if (set->count() == 0)
      fail(ErrorKind::input, "{}: too few of its images can be read for train and val", data);
  if (reads_classes) checked.vocabulary = serialize_classes(folder.classes);
  return std::make_unique<ImagesTask>(image_folder_shape(checked), std::move(folder), checked);
}

}  // namespace

TaskEntry image_folder_task() {
  return {"images",
          "the images of a folder",
          image_settings(
              kDefaultSide, kMaxSide,
              {channels_setting(), gray_setting(),
               data_setting("the folder; train, val and test, alone in it, are the splits")}),
          make_image_folder_task,
          image_folder_shape,
          true,
          "size"};
}

}  // namespace linea
