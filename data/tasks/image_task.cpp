#include "data/tasks/image_task.h"

#include <utility>

#include "base/error.h"
#include "base/random.h"
#include "data/hash.h"

namespace linea {
namespace {

class ImageTask : public Task {
 public:
  ImageTask(const TaskShape& shape, ImageSplits splits, const TaskOptions& options)
      : Task(shape),
        splits_(std::move(splits)),
        flip_(options.settings.flag("flip")),
        class_dropout_(options.settings.real("class_dropout")),
        synthetic_(!options.settings.has("data")) {
    const std::vector<std::string> names = class_names(options.name, options.vocabulary);
    constexpr size_t kShown = 20;
    if ((shape.classes > 0 || shape.answer_tokens > 0) && !names.empty())
      notes_.push_back(fmt::format("classes: {}", numbered(names, kShown)));
  }

  Batch train_rows(uint64_t seed, uint64_t first_example, int64_t rows) const override {
    Batch batch = blank_batch(rows, length(), shape().start);
    for (int64_t row = 0; row < rows; ++row) {
      const uint64_t example = first_example + static_cast<uint64_t>(row);
      const RandomStream stream{seed, Purpose::task, task_stream::kFlip, 0},
          of_class{seed, Purpose::task, task_stream::kClassDropout, 0};
      const bool flipped = flip_ && random_below(stream, example, 2) == 1;
      put(splits_.train, shuffled_example(seed, example, splits_.train.count()), flipped, batch,
          row);
      if (class_dropout_ > 0 && random_uniform(of_class, example) < class_dropout_)
        batch.inputs[static_cast<size_t>(row * length())] = shape().no_class;
    }
    return batch;
  }

  int64_t rows(Split split) const override { return set_of(split).count(); }

  Batch eval_batch(Split split, int64_t first_row, int64_t rows) const override {
    check_eval_rows(*this, split, first_row, rows);
    Batch batch = blank_batch(rows, length(), shape().start);
    for (int64_t row = 0; row < rows; ++row) put(set_of(split), first_row + row, false, batch, row);
    return batch;
  }

  std::vector<std::string> notes() const override { return notes_; }

  std::string fingerprint() const override {
    if (synthetic_) return "";
    Hasher hasher;
    hasher.update(splits_.train.pixels.data(), splits_.train.pixels.size());
    hasher.update(splits_.train.labels.data(), splits_.train.labels.size());
    return hasher.hex();
  }

 private:
  const ImageSet& set_of(Split split) const {
    if (split == Split::train) return splits_.train;
    return split == Split::val ? splits_.val : splits_.test;
  }

  void put(const ImageSet& set, int64_t image, bool flipped, Batch& batch, int64_t row) const {
    int32_t* inputs = batch.inputs.data() + row * length();
    int32_t* targets = batch.targets.data() + row * length();
    const int64_t count = length() - shape().answer_tokens;
    const uint8_t* pixels = set.pixels.data() + image * count;
    const auto token = [&](int64_t t) {
      return gray_to_token(pixels[flipped ? flipped_position(t) : t], shape().levels);
    };
    if (shape().answer_tokens > 0) {
      for (int64_t t = 0; t < count; ++t) inputs[t] = token(t);
      put_answer(shape(), count, shape().start, set.labels[static_cast<size_t>(image)], batch, row);
      batch.lengths.clear();  // all are equal
      return;
    }
    if (shape().classes > 0) inputs[0] = shape().start + set.labels[static_cast<size_t>(image)];
    for (int64_t t = 0; t < count; ++t) {
      targets[t] = token(t);
      if (t > 0) inputs[t] = targets[t - 1];
    }
  }

  // The position of token t in the image flipped left to right; the channels keep their order.
  int64_t flipped_position(int64_t t) const {
    const int64_t side = shape().side, channels = shape().channels;
    const int64_t channel = t % channels, column = t / channels % side,
                  row_start = t - channel - column * channels;
    return row_start + (side - 1 - column) * channels + channel;
  }

  ImageSplits splits_;
  bool flip_;
  double class_dropout_;
  bool synthetic_;
  std::vector<std::string> notes_;
};

}  // namespace

Declarations image_settings(int64_t side, int64_t max_side, const Declarations& others) {
  using namespace declare;
  Declarations result = {
      of_model(
          integer("size", side, {1, static_cast<double>(max_side)}, "side of an image in pixels")),
      changing(MayChange::never, integer("levels", 256, {2, 256}, "brightness levels of a token")),
      changing(MayChange::never,
               choice("predict", "pixels", {"pixels", "class"},
                      "pixels: each token from those before it; class: the image's class")),
      only_with("predict", {"class"}, answer_setting()),
      flag("flip", "mirror training images left to right, at random"),
      of_model(flag("class_token", "start each image with its class")),
      of_model(real("class_dropout", 0, {0, kBelowOne},
                    "probability of training an image without its class, which "
                    "linea sample --guidance needs"))};
  result.insert(result.end(), others.begin(), others.end());
  return result;
}

Setting channels_setting() {
  using namespace declare;
  return changing(MayChange::never,
                  integer("channels", 3, {1, 3}, "3: red, green and blue; 1: gray"));
}

Setting gray_setting() {
  using namespace declare;
  return standing_for("channels", "1", flag("gray", "the same as --channels 1"));
}

bool predicts_class(const TaskOptions& options) {
  return options.settings.text("predict") == "class";
}

int64_t image_channels(const TaskOptions& options) {
  const int64_t channels = options.settings.integer("channels");
  require(channels != 2, "`channels` is 2; it must be 1 (gray) or 3 (red, green, blue)");
  return channels;
}

TaskShape image_shape(const TaskOptions& options, int64_t side, int64_t channels, int64_t classes) {
  const int64_t levels = options.settings.integer("levels");
  const bool class_token = options.settings.flag("class_token");
  const bool drops_classes = options.settings.real("class_dropout") > 0;
  require(class_token || !drops_classes,
          "`class_dropout` {} drops classes: train with `class_token`, or leave it out",
          options.settings.real("class_dropout"));
  const bool answers = predicts_class(options);
  require(!answers || !class_token,
          "`class_token` names the class that `predict` class asks for: leave it out");
  TaskShape shape;
  if (answers) shape.answer_tokens = options.settings.integer("answer_tokens");
  shape.classes = class_token ? classes : 0;
  shape.vocab_size = answers ? classes : levels;
  shape.input_vocab_size = levels + (class_token ? classes + drops_classes : 1);
  shape.length = side * side * channels + shape.answer_tokens;
  shape.start = static_cast<int32_t>(levels);
  if (drops_classes) shape.no_class = static_cast<int32_t>(levels + classes);
  shape.side = side;
  shape.channels = channels;
  shape.levels = levels;
  return shape;
}

std::unique_ptr<Task> make_image_task(const TaskShape& shape, ImageSplits splits,
                                      const TaskOptions& options) {
  return std::make_unique<ImageTask>(shape, std::move(splits), options);
}

}  // namespace linea
