// The `digits` task: synthetic handwritten digits. Each is a few strokes through jittered points;
// slant, size, position and thickness vary. Image i is a pure function of (seed, i).
#pragma once

#include <cstdint>
#include <memory>

#include "data/tasks/image_task.h"
#include "data/tasks/task.h"

namespace linea {

// Images [first, first + count), white on black, of side x side pixels. Each ten images from a
// multiple of 10 on contain every digit once, in random order.
ImageSet render_digits(uint64_t seed, int64_t first, int64_t count, int64_t side);
// The image with which the training split begins: it comes last, so that val and test do not depend on its size.
int64_t first_training_digit();

TaskEntry digits_task();

}  // namespace linea
