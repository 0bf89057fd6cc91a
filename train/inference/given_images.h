// Images that a person names: files, or some of the data that a model was trained and tested on.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "train/checkpoint.h"

namespace linea {

struct GivenImage {
  std::string name;
  int32_t start = 0;            // what the model reads before it: the start token, or the class
  std::vector<int32_t> tokens;  // side x side x channels levels
};

// Each name is that of a PNG or JPEG file, or "test:7": number 7, from 0 on, of the test split (or
// val, train). `class_label` stands before each image; -1: a image of the data has its own, a
// file needs one where the model has classes. Errors: a class that the model does not have, a
// image that is not there, a file that is none.
std::vector<GivenImage> given_images(const std::vector<std::string>& names, const SavedModel& saved,
                                     int64_t class_label);
// The first `count` images of the test split; where no count is given the first `usual`, or all
// if there are fewer.
std::vector<GivenImage> first_test_images(std::optional<int64_t> count, int64_t usual,
                                          const SavedModel& saved, int64_t class_label);

// Error: --class with a class that the model does not have; -1 passes.
void require_class(const TaskShape& shape, int64_t class_label);

}  // namespace linea
