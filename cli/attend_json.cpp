#include "cli/attend_json.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "data/files.h"
#include "data/json.h"

namespace linea::attend {
namespace {

constexpr size_t kMaxAxes = 4;
constexpr int64_t kMaxBytes = int64_t{1} << 26;

// One array of a file.
class Reader {
 public:
  Reader(const std::string& path, const std::string& name) : where_(path + ": " + name) {}

  Tensor read(const nlohmann::json& array) {
    for (const nlohmann::json* level = &array; level->is_array(); level = &level->front()) {
      if (sizes_.size() == kMaxAxes)
        fail(ErrorKind::input, "{} has more than {} axes", where_, kMaxAxes);
      sizes_.push_back(static_cast<int64_t>(level->size()));
      if (level->empty()) break;
    }
    take(array, 0, "");
    return Tensor::from(values_, Shape(sizes_));
  }

 private:
  void take(const nlohmann::json& level, size_t axis, const std::string& position) {
    if (axis == sizes_.size()) {
      if (!level.is_number())
        fail(ErrorKind::input, "{}{} is {}: it must be a number", where_, position,
             cut(dump_json(level)));
      values_.push_back(level.get<double>());
      return;
    }
    const auto size = static_cast<size_t>(sizes_[axis]);
    if (!level.is_array() || level.size() != size)
      fail(ErrorKind::input, "{}{} is {}: it must be an array of {}, like the first of its kind",
           where_, position, cut(dump_json(level)), size);
    for (size_t i = 0; i < size; ++i) take(level[i], axis + 1, fmt::format("{}[{}]", position, i));
  }

  static std::string cut(const std::string& text) {
    return text.size() <= 40 ? text : text.substr(0, 40) + "...";
  }

  std::string where_;
  std::vector<int64_t> sizes_;
  std::vector<double> values_;
};

}  // namespace

std::vector<NamedTensor> read_json_arrays(const std::string& path) {
  const nlohmann::json document = parse_json(read_file(path, kMaxBytes));
  if (!document.is_object())
    fail(ErrorKind::input, "{}: this is no JSON object of arrays, as {{\"q\": [[0,1]], ...}}",
         path);
  std::vector<NamedTensor> arrays;
  for (const auto& [name, array] : document.items())
    arrays.push_back({name, Reader(path, name).read(array)});
  return arrays;
}

}  // namespace linea::attend
