// Images as sequences: side * side * channels tokens in raster order, the channels of a pixel in
// sequence, each quantized to `levels` levels. The model reads the start token (or the class
// token), then the tokens before the one it predicts; every token is scored. A training image may
// be flipped left to right, at random for each (seed, example).
//
// With `predict` class an image is one question: all of its tokens, then answer tokens, of which
// the last one has the class as target (TaskShape::answer_tokens).
#pragma once

#include <cstdint>
#include <memory>

#include "data/image_set.h"
#include "data/tasks/task.h"

namespace linea {

// token = floor(gray * levels / 256)
inline int32_t gray_to_token(uint8_t gray, int64_t levels) {
  return static_cast<int32_t>(gray * levels / 256);
}

// gray = round(token * 255 / (levels - 1)): the first level is black, the last is white
inline uint8_t token_to_gray(int32_t token, int64_t levels) {
  return static_cast<uint8_t>((2 * 255 * token + levels - 1) / (2 * (levels - 1)));
}

// Whether the class is predicted, not the pixels.
bool predicts_class(const TaskOptions& options);

// The shape of sequences of side x side x channels images; checks the options that images
// share. `classes`: how many labels there are, for `class_token` and `predict` class.
TaskShape image_shape(const TaskOptions& options, int64_t side, int64_t channels, int64_t classes);

// The settings that tasks of images share. `side`: the default of `size`.
Declarations image_settings(int64_t side, int64_t max_side, const Declarations& others);
// `channels`, of a task whose images have colors: 3, or 1 for gray; and `gray`, another name for
// that.
Setting channels_setting();
Setting gray_setting();
int64_t image_channels(const TaskOptions& options);

// `options` says whether training images are flipped and whether they are read (from `data`) or
// generated, and names the classes.
std::unique_ptr<Task> make_image_task(const TaskShape& shape, ImageSplits splits,
                                      const TaskOptions& options);

}  // namespace linea
