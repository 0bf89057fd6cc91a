// Images named by the user: files, or images of the model's data.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "train/run/checkpoint.h"

namespace linea {

struct GivenImage {
  std::string name;
  int32_t start = 0;            // the start token or the class token
  std::vector<int32_t> tokens;  // side x side x channels levels
};

// A name is a PNG or JPEG file, or "test:7": image 7 (from 0) of the test (or val, train) split.
// `class_label` is the class of every image; -1: an image of the data has its own, a file needs one
// if the model has classes. Errors: a class that the model does not have, an image that does not
// exist, a file that is not an image.
std::vector<GivenImage> given_images(const std::vector<std::string>& names, const SavedModel& saved,
                                     int64_t class_label);
// The first `count` images of the test split; without a count the first `default_count`, or all if
// there are fewer.
std::vector<GivenImage> first_test_images(std::optional<int64_t> count, int64_t default_count,
                                          const SavedModel& saved, int64_t class_label);

// The number of a class, given by its name or, where no class has that name, by its number. Error:
// ErrorKind::usage, a class that the model does not have.
int64_t find_class(const SavedModel& saved, const std::string& name);
// Error: a class that the model does not have; -1 passes.
void require_class(const TaskShape& shape, int64_t class_label);

}  // namespace linea
