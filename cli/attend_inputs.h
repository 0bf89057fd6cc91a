// The inputs of linea attend: its flags, and the tensors of its file, each checked as it is read.
#pragma once

#include <cmath>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cli/setting_flags.h"
#include "data/safetensors.h"
#include "nn/verify/attend.h"
#include "tensor/backend.h"

namespace linea::attend {

struct Options {
  AttentionOptions attention;
  Settings settings;  // texts, by key
  std::string form = "chunked", device = "cpu", in, out;
  std::vector<std::string> show;  // attend::shown_names()
  bool causal = false;
  int64_t seed = 1, threads = 0;
};

// The index of element `index` of a tensor of this shape: "[0,2,1]".
std::string position_text(const Shape& shape, int64_t index);

struct Element {
  double value;
  std::string position;
};

// The first element that is not as it should be.
template <typename Good>
std::optional<Element> first_unlike(const Tensor& x, const Good& good) {
  return with_real(x.dtype(), "attend", [&](auto zero) -> std::optional<Element> {
    const auto values = x.to_vector<decltype(zero)>();
    for (size_t i = 0; i < values.size(); ++i)
      if (!good(values[i]))
        return Element{values[i], position_text(x.shape(), static_cast<int64_t>(i))};
    return std::nullopt;
  });
}

// An axis of a shape that is asked for: a size, or any where it is 0.
struct Axis {
  std::string name;
  int64_t size = 0;
};
using Axes = std::vector<Axis>;

// The tensors of --in, each checked as it is read: a safetensors file, or nested arrays in JSON
// (cli/attend_json.h), where leading axes of size 1 may be left out. Every error is
// ErrorKind::input and names file and tensor.
class InputFile {
 public:
  explicit InputFile(const std::string& path);

  bool has(const std::string& name) const;

  // `why` goes before the shape that is asked for: "with q [2,3,17,5] ".
  Tensor read(const std::string& name, const Axes& axes, const std::string& why = "");

  // A tensor of indices, of any shape.
  Tensor read_indices(const std::string& name);

  template <typename Good>
  void refuse(const std::string& name, const Tensor& x, const Good& good, const char* rule) const {
    if (const auto bad = first_unlike(x, good))
      fail(ErrorKind::input, "{}: {} is {:.9g} at {}; {}", path_, name, bad->value, bad->position,
           rule);
  }

  void warn_of_unused(const std::string& label) const;

 private:
  const SafetensorsEntry& entry(const std::string& name) const;
  void check_dtype(const SafetensorsEntry& entry);
  // An entry's shape; of JSON as one of `rank` axes.
  std::vector<int64_t> shape_of(const SafetensorsEntry& entry, size_t rank) const;
  Tensor load(const std::string& name) const;

  std::string path_;
  std::optional<SafetensorsFile> file_;  // none: arrays_, of JSON
  std::vector<NamedTensor> arrays_;
  std::vector<SafetensorsEntry> entries_;
  std::string first_, dtype_;
  std::set<std::string> used_;
};

// Those of an attention with gates like these, of another size, and of the others what is in the file.
Inputs read_inputs(InputFile& file, const GateSpec& gate, const AttentionTraits& traits,
                   const Options& options);

}  // namespace linea::attend
