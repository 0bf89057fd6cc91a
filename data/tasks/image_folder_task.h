// The `images` task: the images of a folder (data/readers/image_folder.h), at --size 32 unless said
// otherwise.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/tasks/task.h"

namespace linea {

// With a class token, a run's "vocabulary" is the list of class names; label c is the c-th.
std::string serialize_classes(const std::vector<std::string>& names);
bool is_class_list(const std::string& vocabulary);

// Parses the output of serialize_classes, with checks: it may come from a damaged file.
std::vector<std::string> parse_classes(const std::string& vocabulary);

TaskEntry image_folder_task();

}  // namespace linea
