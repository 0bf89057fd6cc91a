// --init-from: weights of another run as the start of a new one.
#include <algorithm>
#include <charconv>
#include <numeric>
#include <set>

#include "nn/embedding.h"
#include "nn/output_head.h"
#include "train/model_file.h"
#include "train/run/checkpoint.h"

namespace linea {
namespace {

// Row i of a table of the new model is the mean of these rows of a table of the base; of none: the
// row stays as it is.
using RowSources = std::vector<std::vector<int64_t>>;

constexpr std::string_view kBlocks = "blocks.";

// Substrings of the names of tensors that have another meaning under the settings of the other
// attention, such as the gate of another update rule.
std::vector<std::string> redefined_tensors(const AttentionOptions& before,
                                           const AttentionOptions& now) {
  const Settings was = complete_settings(before), is = complete_settings(now);
  std::vector<std::string> result;
  for (const std::string& name : {before.name, now.name})
    for (const Setting& setting : find_attention(name).settings)
      if (!setting.defines.empty() &&
          (was.has(setting.key) != is.has(setting.key) ||
           (was.has(setting.key) && was.at(setting.key) != is.at(setting.key))))
        result.push_back(setting.defines);
  return result;
}

bool contains_any(const std::string& name, const std::vector<std::string>& words) {
  return std::any_of(words.begin(), words.end(),
                     [&](const std::string& word) { return name.find(word) != std::string::npos; });
}

// The block of "blocks.3.out.weight", -1 for a tensor of none.
int64_t layer_of(const std::string& name) {
  int64_t layer = -1;
  if (!name.starts_with(kBlocks)) return -1;
  const char* const end = name.data() + name.size();
  const auto [rest, problem] = std::from_chars(name.data() + kBlocks.size(), end, layer);
  return problem == std::errc() && rest != end && *rest == '.' ? layer : -1;
}

// "norm.bias, blocks.*.qkv.bias", a name for all blocks.
std::string names_of(const std::vector<std::string>& names) {
  std::vector<std::string> list;
  for (const std::string& name : names) {
    const std::string shown =
        layer_of(name) < 0 ? name : "blocks.*" + name.substr(name.find('.', kBlocks.size()));
    if (std::find(list.begin(), list.end(), shown) == list.end()) list.push_back(shown);
  }
  return fmt::format("{}", fmt::join(list, ", "));
}

// "blocks.3", "blocks.3 to 5"
std::string range_of(const char* what, int64_t first, int64_t last) {
  return first == last ? fmt::format("{}{}", what, first)
                       : fmt::format("{}{} to {}", what, first, last);
}

// Positions after those of images do not scale with them.
bool answers_alike(const TaskShape& one, const TaskShape& other) {
  return one.answer_tokens == other.answer_tokens &&
         (one.answer_tokens == 0 || one.side == other.side);
}

class InitialWeights {
 public:
  InitialWeights(const std::filesystem::path& run, Model& model, const TaskShape& shape,
                 const std::string& vocabulary)
      : run_(run.string()),
        path_(find_model_file(run).string()),
        file_(open_model_file(path_)),
        model_(model),
        now_(model.config()),
        shape_(shape) {
    check_vocabulary(file_, path_, vocabulary,
                     "train on a text of the same tokens, or leave out `init_from`");
    config_ = config_from_toml(metadata_value(file_, path_, "config"), path_);
    base_shape_ = task_shape(task_options(config_, saved_vocabulary(file_)));
    base_ = model_config(config_, base_shape_);
    require(shape.vocab_size == base_shape_.vocab_size &&
                ((shape.levels > 0 && shape.answer_tokens == 0) ||
                 shape.input_vocab_size == base_shape_.input_vocab_size) &&
                shape.second_vocab_size == base_shape_.second_vocab_size &&
                shape.channels == base_shape_.channels && answers_alike(shape, base_shape_),
            "{} was trained on task {}, whose tokens are not those of this run's task; leave out "
            "`init_from`",
            run_, config_.task);
  }

  void load() {
    for (const Parameter& parameter : model_.parameters())
      load_parameter({parameter.name, parameter.var.value()});
    for (const Buffer& buffer : model_.buffers()) {
      const NamedTensor target{buffer.name, buffer.tensor};
      const int64_t layer = layer_of(target.name);
      const bool known = layer < base_.layers;
      if (known && base_.attention_of(layer).name == now_.attention_of(layer).name &&
          !is_redefined(target.name) && fits(target)) {
        copy(target);
      } else if (known) {
        fresh_.push_back(target.name);
      }
    }
    model_.buffers_changed();
    for (int64_t layer = 0; layer < std::min(base_.layers, now_.layers); ++layer)
      if (make_smallest(base_.attention_of(layer))->traits().softmax_weights)
        model_.scale_queries_from_softmax(layer);
  }

  std::string windows_note() const { return image_windows_note(file_, path_, config_); }

  // One line on what the new model has otherwise than the base; empty where nothing is.
  std::string note() const {
    std::vector<std::string> parts = taken_, unused;
    for (const SafetensorsEntry& entry : file_.entries())
      if (used_.count(entry.name) == 0 && layer_of(entry.name) < now_.layers)
        unused.push_back(entry.name);
    if (base_.layers > now_.layers)
      parts.push_back(range_of("blocks.", now_.layers, base_.layers - 1) + " of it left out");
    if (!unused.empty()) parts.push_back("not used of it: " + names_of(unused));
    if (!fresh_.empty()) parts.push_back("new: " + names_of(fresh_));
    return parts.empty() ? "" : fmt::format("weights of {}: {}", run_, fmt::join(parts, "; "));
  }

 private:
  // Whether changed settings define this tensor, which is of a layer that the base has.
  bool is_redefined(const std::string& name) const {
    const int64_t layer = layer_of(name);
    return layer >= 0 && contains_any(name, redefined_tensors(base_.attention_of(layer),
                                                              now_.attention_of(layer)));
  }

  bool fits(const NamedTensor& target) const {
    return file_.contains(target.name) &&
           file_.entry(target.name).shape == target.tensor.shape().sizes();
  }

  void copy(const NamedTensor& target) {
    load_tensor(file_, path_, target);
    used_.insert(target.name);
  }

  // A table of the base, which has `rows` rows.
  std::vector<double> base_table(const std::string& name, int64_t rows) {
    const Tensor table(Shape{rows, base_.dim}, DType::f32);
    copy({name, table});
    return table.to_doubles();
  }

  void load_parameter(const NamedTensor& target) {
    const std::string& name = target.name;
    const bool of_attention =
        name.find(".attention.") != std::string::npos || name.find(".gate") != std::string::npos;
    if (layer_of(name) >= base_.layers) return start_layer(target);
    if (name == "token_embedding.weight" && base_.input_vocab_size != now_.input_vocab_size)
      return mix_rows(base_table(name, base_.input_vocab_size), token_sources(), target);
    if (name == "position_embedding.weight" && !has_position_table(base_.positions))
      return fresh_.push_back(name);
    if (name == "position_embedding.weight") return load_positions(target);
    if (contains_any(name, {"row_embedding", "column_embedding", "channel_embedding"}))
      return load_axis(target);
    if (name == "output_head.weight" && base_.tie && !now_.tie) return untie(target);
    const bool of_others = contains_any(name, {".qkv.", ".qv.", ".v."}) && !file_.contains(name);
    if (is_redefined(name) || (of_attention && !fits(target)) || of_others || may_be_new(name)) {
      fresh_.push_back(name);
    } else {
      copy(target);
    }
  }

  // A parameter that starts at 0 where the base has none, so that it changes nothing at first.
  bool may_be_new(const std::string& name) const {
    if (file_.contains(name)) return false;
    const bool untied = name == "output_head.bias" && base_.tie;  // a tied output has no bias
    const bool bias = name.ends_with(".bias") && now_.bias && (!base_.bias || untied);
    return bias || name == "class_embedding.weight";
  }

  // A layer adds 0 to the residual stream, x + 0, where its last products are 0: the model starts
  // as the base, and the gradients of these products are not 0.
  void start_layer(const NamedTensor& target) {
    if (target.name.ends_with(".out.weight") || target.name.ends_with(".down.weight"))
      zero(target.tensor);
    if (target.name.ends_with(".out.weight") && layer_of(target.name) == base_.layers)
      taken_.push_back(range_of("blocks.", base_.layers, now_.layers - 1) +
                       " new, adding 0 at first");
  }

  static void zero(const Tensor& tensor) {
    write_values(std::vector<double>(static_cast<size_t>(tensor.numel())), tensor);
  }

  static void mix_rows(const std::vector<double>& base, const RowSources& sources,
                       const NamedTensor& target) {
    std::vector<double> values = target.tensor.to_doubles();
    const auto columns = static_cast<size_t>(target.tensor.size(1));
    for (size_t row = 0; row < sources.size(); ++row)
      for (size_t d = 0; d < columns && !sources[row].empty(); ++d) {
        double sum = 0;
        for (const int64_t source : sources[row])
          sum += base[static_cast<size_t>(source) * columns + d];
        values[row * columns + d] = sum / static_cast<double>(sources[row].size());
      }
    write_values(values, target.tensor);
  }

  // The rows of the input tokens: predicted tokens first, then the start of an image, or its
  // classes and the token of no class. A class that the base does not know starts as its start; the
  // start, and no class, as the mean of the classes where it knows nothing else.
  RowSources token_sources() {
    const int64_t V = base_.vocab_size, classes = base_.classes;
    std::vector<int64_t> none(static_cast<size_t>(std::max<int64_t>(1, classes)));
    std::iota(none.begin(), none.end(), V);
    if (base_.no_class >= 0) none = {base_.no_class};
    RowSources sources;
    for (int64_t token = 0; token < V; ++token) sources.push_back({token});
    for (int64_t token = V; token < now_.input_vocab_size; ++token) {
      const bool known = token - V < std::min(now_.classes, classes);
      sources.push_back(known ? std::vector<int64_t>{token} : none);
    }
    const char* const start = now_.classes > 0
                                  ? classes > 0 ? "the token of no class" : "each class"
                                  : "the start of an image";
    if (now_.input_vocab_size > V + std::min(now_.classes, classes))
      taken_.push_back(fmt::format("{} starts as {}", start,
                                   none.size() > 1 ? "the mean of its classes"
                                   : classes > 0   ? "its token of no class"
                                                   : "its start of an image"));
    return sources;
  }

  // The coordinate of the base's images that is nearest to `at` of this run's.
  int64_t scaled(int64_t at) const { return (2 * at + 1) * base_shape_.side / (2 * shape_.side); }

  // The position of the base that position n starts from: the nearest pixel, or n modulo the
  // length.
  int64_t position_in_base(int64_t n) const {
    if (shape_.side == 0 || shape_.side == base_shape_.side) return n % base_.length;
    const int64_t C = shape_.channels, W = shape_.side;
    return (scaled(n / (C * W)) * base_shape_.side + scaled(n / C % W)) * C + n % C;
  }

  // The base's table of all positions, the sum of its tables where it has several.
  std::vector<double> base_positions() {
    Parameters list;
    ParameterInit init(list, 0);
    const PositionEmbedding positions(init, base_);
    for (const Parameter& parameter : list) copy({parameter.name, parameter.var.value()});
    return positions.table(base_.length).value().to_doubles();
  }

  void load_positions(const NamedTensor& target) {
    RowSources sources;
    for (int64_t n = 0; n < now_.length; ++n) sources.push_back({position_in_base(n)});
    const bool same = now_.positions == base_.positions;
    mix_rows(same ? base_table(target.name, base_.length) : base_positions(), sources, target);
    if (!same) taken_.push_back("positions start as its " + base_.positions + " ones");
    if (shape_.side > 0 && shape_.side != base_shape_.side) {
      taken_.push_back(fmt::format(
          "positions start as those of the nearest pixels of its {0} x {0}", base_shape_.side));
    } else if (now_.length > base_.length) {
      taken_.push_back(fmt::format(
          "{} repeat its {}", range_of("positions ", base_.length, now_.length - 1), base_.length));
    } else if (now_.length < base_.length) {
      taken_.push_back(fmt::format("the first {} of its {} positions", now_.length, base_.length));
    }
  }

  // Rows, columns and channels of images. Where the base has no such tables, load_positions has all
  // of its positions in one, and these add 0.
  void load_axis(const NamedTensor& target) {
    if (!file_.contains(target.name)) {
      zero(target.tensor);
      return fresh_.push_back(target.name);
    }
    if (shape_.answer_tokens > 0) return copy(target);  // as many rows
    RowSources sources;
    const bool channel = target.name == "channel_embedding.weight";
    for (int64_t row = 0; row < target.tensor.size(0); ++row)
      sources.push_back({channel ? row : scaled(row)});
    mix_rows(base_table(target.name, channel ? shape_.channels : base_shape_.side), sources,
             target);
  }

  // The output matrix was the transposed token embedding.
  void untie(const NamedTensor& target) {
    std::vector<double> values = base_table("token_embedding.weight", base_.input_vocab_size);
    values.resize(static_cast<size_t>(target.tensor.numel()));
    write_values(values, target.tensor);
    taken_.push_back("the output matrix starts as its token embedding");
  }

  const std::string run_, path_;
  const SafetensorsFile file_;
  Model& model_;
  const ModelConfig& now_;
  const TaskShape shape_;
  RunConfig config_;  // of the base, as all that follows
  TaskShape base_shape_;
  ModelConfig base_;
  std::set<std::string> used_;              // tensors of the base
  std::vector<std::string> fresh_, taken_;  // tensors of the model; lines on the others
};

}  // namespace

void load_initial_weights(const std::filesystem::path& run, Model& model, const TaskShape& shape,
                          const std::string& vocabulary, const Note& note) {
  InitialWeights weights(run, model, shape, vocabulary);
  weights.load();
  for (const std::string& line : {weights.windows_note(), weights.note()})
    if (!line.empty()) note(line);
}

}  // namespace linea
