// The tensors that linea attend is given.
#include "cli/attend_inputs.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>

#include "cli/attend_json.h"

namespace linea::attend {
namespace {

std::string to_string(const Axes& axes) {
  std::vector<std::string> sizes;
  for (const Axis& axis : axes)
    sizes.push_back(axis.size > 0 ? std::to_string(axis.size) : axis.name);
  return fmt::format("[{}]", fmt::join(sizes, ","));
}

// A size or a number that a setting and a tensor both give.
void check_size(const Options& options, const InputTensor& input, const Tensor& x, int64_t size) {
  const Settings& settings = options.attention.settings;
  if (settings.has(input.setting) && settings.integer(input.setting) != size)
    fail(ErrorKind::usage, "`{}` is {}, and {} of {} is {}: leave `{}` out", input.setting,
         settings.integer(input.setting), input.name, options.in, x.shape().str(), input.setting);
}
void check_number(const Options& options, const InputTensor& input, const Tensor& x) {
  const Settings& settings = options.attention.settings;
  const double asked = settings.has(input.setting) ? settings.real(input.setting) : x.item();
  const bool same = with_real(x.dtype(), "attend", [&](auto zero) {
    return static_cast<decltype(zero)>(asked) == static_cast<decltype(zero)>(x.item());
  });
  require(same, "`{}` is {}, and {} of {} is {:.9g}: leave `{}` out", input.setting, asked,
          input.name, options.in, x.item(), input.setting);
}

// What AttentionEntry::tensors declares, q being [B,H,N,D].
Tensor read_declared(InputFile& file, const InputTensor& input, const Axis& H, const Axis& D,
                     const std::string& why, const Options& options) {
  if (input.axes == "1") {
    const Tensor x = file.read(input.name, {{"1", 1}});
    file.refuse(
        input.name, x, [](auto number) { return number > 0; }, "it must be above 0");
    check_number(options, input, x);
    return x;
  }
  Axes axes;
  size_t sized = 0;
  for (size_t axis = 0; axis < input.axes.size(); ++axis) {
    const char letter = input.axes[axis];
    axes.push_back(letter == 'H' ? H : letter == 'D' ? D : Axis{std::string(1, letter)});
    if (letter != 'H' && letter != 'D') sized = axis;
  }
  const Tensor x = file.read(input.name, axes, why);
  if (!input.setting.empty()) check_size(options, input, x, x.size(static_cast<int>(sized)));
  return x;
}

}  // namespace

std::string position_text(const Shape& shape, int64_t index) {
  std::vector<int64_t> position(static_cast<size_t>(shape.rank()));
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    position[static_cast<size_t>(axis)] = index % shape[axis];
    index /= shape[axis];
  }
  return fmt::format("[{}]", fmt::join(position, ","));
}

InputFile::InputFile(const std::string& path) : path_(path) {
  if (std::filesystem::path(path).extension() == ".json") {
    arrays_ = read_json_arrays(path);
    for (const auto& [name, tensor] : arrays_)
      entries_.push_back({name, "F64", tensor.shape().sizes(), 0, 0});
    return;
  }
  file_ = SafetensorsFile::open(path);
  entries_ = file_->entries();
  for (const std::string& warning : file_->warnings()) fmt::print(stderr, "linea: {}\n", warning);
}

bool InputFile::has(const std::string& name) const {
  return std::any_of(entries_.begin(), entries_.end(),
                     [&](const SafetensorsEntry& entry) { return entry.name == name; });
}

const SafetensorsEntry& InputFile::entry(const std::string& name) const {
  return *std::find_if(entries_.begin(), entries_.end(),
                       [&](const SafetensorsEntry& entry) { return entry.name == name; });
}

std::vector<int64_t> InputFile::shape_of(const SafetensorsEntry& entry, size_t rank) const {
  std::vector<int64_t> shape = entry.shape;
  if (!file_ && shape.size() < rank) shape.insert(shape.begin(), rank - shape.size(), 1);
  return shape;
}

Tensor InputFile::load(const std::string& name) const {
  if (file_) return file_->read(name);
  return std::find_if(arrays_.begin(), arrays_.end(),
                      [&](const NamedTensor& array) { return array.name == name; })
      ->tensor;
}

Tensor InputFile::read(const std::string& name, const Axes& axes, const std::string& why) {
  if (!has(name))
    fail(ErrorKind::input, "{}: there is no tensor {}; {}it must be {}", path_, name, why,
         to_string(axes));
  check_dtype(entry(name));
  const std::vector<int64_t> shape = shape_of(entry(name), axes.size());
  bool fits = shape.size() == axes.size();
  for (size_t i = 0; fits && i < axes.size(); ++i)
    fits = axes[i].size == 0 || axes[i].size == shape[i];
  if (!fits)
    fail(ErrorKind::input, "{}: {} is [{}]; {}it must be {}", path_, name, fmt::join(shape, ","),
         why, to_string(axes));
  if (std::find(shape.begin(), shape.end(), 0) != shape.end())
    fail(ErrorKind::input,
         "{}: {} is [{}], which has no elements; {}it must be {}, every size at least 1", path_,
         name, fmt::join(shape, ","), why, to_string(axes));
  const Tensor result = load(name).reshape(Shape(shape));
  used_.insert(name);
  refuse(
      name, result, [](auto x) { return std::isfinite(x); }, "every number must be finite");
  return result;
}

void InputFile::warn_of_unused(const std::string& label) const {
  std::vector<std::string> names;
  for (const SafetensorsEntry& entry : entries_)
    if (used_.count(entry.name) == 0) names.push_back(quoted_name(entry.name));
  if (!names.empty())
    fmt::print(stderr, "linea: {}: {} does not use {}: ignored\n", path_, label,
               fmt::join(names, ", "));
}

// All tensors must have the dtype of the first one.
void InputFile::check_dtype(const SafetensorsEntry& entry) {
  if (entry.dtype != "F32" && entry.dtype != "F64")
    fail(ErrorKind::input, "{}: {} is {}; all tensors must be F32, or all F64", path_, entry.name,
         entry.dtype);
  if (first_.empty()) first_ = entry.name, dtype_ = entry.dtype;
  if (entry.dtype != dtype_)
    fail(ErrorKind::input, "{}: {} is {} and {} is {}; all tensors must be F32, or all F64", path_,
         entry.name, entry.dtype, first_, dtype_);
}

Tensor InputFile::read_indices(const std::string& name) {
  const std::string& dtype = entry(name).dtype;
  if (dtype != "I32")
    fail(ErrorKind::input, "{}: {} is {}; it must be I32{}", path_, name, dtype,
         file_ ? "" : ", which JSON has not: leave it out, or use a safetensors file");
  used_.insert(name);
  return load(name);
}

namespace {

std::string range_text(const GateValue& part) {
  if (std::isinf(part.min)) return fmt::format("at most {:g}", part.max);
  return std::isinf(part.max) ? fmt::format("at least {:g}", part.min)
                              : fmt::format("from {:g} to {:g}", part.min, part.max);
}

// The gates of the attention at the sizes of q and v.
GateSpec sized_gate(AttentionOptions options, const Inputs& in) {
  options.heads = in.q.size(1);
  options.key_size = in.q.size(3);
  options.value_size = in.v.size(3);
  return make_attention(options)->gate();
}

// The parts of the gates of an attention, next to each other.
Tensor read_gates(InputFile& file, const GateSpec& gate, const Axes& positions,
                  const std::string& why) {
  std::vector<std::vector<double>> columns;
  int64_t width = 0;
  DType dtype = DType::f32;
  Shape shape;
  for (const GateValue& part : gate.parts()) {
    Axes axes = positions;
    if (part.size > 1) axes.push_back({"G", part.size});
    const Tensor x = file.read(part.name, axes, why);
    file.refuse(
        part.name, x, [&](auto g) { return g >= part.min && g <= part.max; },
        ("it must be " + range_text(part)).c_str());
    if (gate.parts().size() == 1) return x.reshape({x.size(0), x.size(1), x.size(2), part.size});
    columns.push_back(x.to_doubles());
    width += part.size;
    dtype = x.dtype();
    shape = {x.size(0), x.size(1), x.size(2), width};
  }
  std::vector<double> all;
  for (int64_t row = 0; width > 0 && row < shape.numel() / width; ++row)
    for (size_t i = 0; i < columns.size(); ++i) {
      const auto count = gate.parts()[i].size;
      const auto from = columns[i].begin() + row * count;
      all.insert(all.end(), from, from + count);
    }
  return Tensor::from(all, shape, dtype);
}

}  // namespace

Inputs read_inputs(InputFile& file, const GateSpec& gate, const AttentionTraits& traits,
                   const Options& options) {
  Inputs in;
  // What has no queries has the shape of v in their place.
  in.q = file.read(traits.reads_queries ? "q" : "v", {{"B"}, {"H"}, {"N"}, {"D"}});
  const Axis B{"B", in.q.size(0)}, H{"H", in.q.size(1)}, N{"N", in.q.size(2)}, D{"D", in.q.size(3)};
  const std::string why = fmt::format("with q {} ", in.q.shape().str());
  in.k = traits.reads_keys ? file.read("k", {B, H, N, D}, why) : in.q;
  in.v = file.read("v", {B, H, N, {"M"}}, why);
  if (!gate.parts().empty())
    in.gate = read_gates(file, sized_gate(options.attention, in), {B, H, N}, why);
  for (const InputTensor& input : find_attention(options.attention.name).tensors)
    if (input.required || file.has(input.name))
      in.tensors.push_back({input.name, read_declared(file, input, H, D, why, options)});
  for (size_t n = 0; traits.decides && file.has(decision_name(n)); ++n)
    in.decisions.push_back(file.read_indices(decision_name(n)));
  require(
      in.decisions.empty() || options.form != "recurrent",
      "{} holds decisions, and --form recurrent makes its own: use --form chunked or quadratic, "
      "or leave them out",
      options.in);
  if (file.has("dy")) {
    in.dy = file.read("dy", {B, H, N, {"M", in.v.size(3)}},
                      fmt::format("with q {} and v {} ", in.q.shape().str(), in.v.shape().str()));
    require(options.form != "recurrent",
            "{} holds dy, and --form recurrent has no gradients: use --form chunked or quadratic, "
            "or leave dy out",
            options.in);
  }
  return in;
}

}  // namespace linea::attend
