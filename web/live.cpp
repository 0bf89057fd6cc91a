// What the live page (web/live.js) calls: one attention on numbers that a reader types, and a small model
// of digits that is trained and sampled in the tab. Texts go out as JSON; a call that fails gives
// {"error": MESSAGE}.
#include <emscripten.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "autograd/linear_attention.h"
#include "autograd/ops.h"
#include "data/hash.h"
#include "data/tasks/builtin.h"
#include "data/tasks/digits.h"
#include "data/tasks/image_folder_task.h"
#include "nn/attention/builtin.h"
#include "nn/optimizer.h"
#include "nn/transformer.h"
#include "nn/verify/show.h"
#include "tensor/context.h"
#include "tensor/ops.h"

namespace linea {

// What is here; the lists of the whole program are in files of these names.
std::vector<AttentionEntry> builtin_attentions() {
  return {linear_attention_entry(), performer_entry(), softmax_entry()};
}
std::vector<TaskEntry> builtin_tasks() { return {digits_task()}; }
// What a model of digits never calls: the classes of a folder, checksums of files.
bool is_class_list(const std::string&) { return false; }
std::vector<std::string> parse_classes(const std::string&) { return {}; }
struct Hasher::State {};
Hasher::Hasher(HashKind) {}
Hasher::~Hasher() = default;
void Hasher::update(const void*, size_t) {}
std::string Hasher::hex() { return ""; }

namespace {

using Json = nlohmann::ordered_json;

// One page calls, one call after the other.
const char* answer(const std::function<Json()>& work) {
  static std::string text;
  try {
    text = work().dump();
  } catch (const std::exception& error) {
    text = Json{{"error", error.what()}}.dump();
  }
  return text.c_str();
}

// Rows [N][W], or numbers [N], as [1,1,N,W] in f64.
Tensor parse_rows(const Json& rows, const std::string& name) {
  std::vector<double> values;
  size_t width = 0;
  for (const Json& row : rows) {
    const auto numbers =
        row.is_array() ? row.get<std::vector<double>>() : std::vector{row.get<double>()};
    require(width == 0 || numbers.size() == width, "{} has rows of {} and of {} numbers", name,
            width, numbers.size());
    width = numbers.size();
    values.insert(values.end(), numbers.begin(), numbers.end());
  }
  require(width > 0, "{} is empty", name);
  return Tensor::from(values,
                      {1, 1, static_cast<int64_t>(rows.size()), static_cast<int64_t>(width)});
}

Json rows_json(const Tensor& x) {
  const std::vector<double> values = x.to_doubles();
  const auto width = static_cast<size_t>(x.shape().rank() == 4 ? x.size(3) : 1);
  Json rows = Json::array();
  for (size_t i = 0; i < values.size(); i += width)
    rows.push_back(std::vector<double>(values.begin() + static_cast<std::ptrdiff_t>(i),
                                       values.begin() + static_cast<std::ptrdiff_t>(i + width)));
  return rows;
}

// The parts of the gates in one tensor [1,1,N,...], in the order of the attention.
Tensor gates_of(const Json& request, const GateSpec& gate) {
  if (gate.size == 0) return {};
  const auto N = request.at("q").size();
  std::vector<double> values;
  for (size_t n = 0; n < N; ++n)
    for (const GateValue& part : gate.parts()) {
      const Json& numbers = request.at(part.name);
      require(numbers.size() == N, "{} has {} numbers, and there are {} positions", part.name,
              numbers.size(), N);
      const double x = numbers[n].get<double>();
      require(x >= 0 && x <= 1, "{} of position {} is {}: it must be from 0 to 1", part.name, n + 1,
              x);
      values.push_back(x);
    }
  return Tensor::from(values, {1, 1, static_cast<int64_t>(N), gate.size});
}

// As linea attend --in FILE --show: {"attention", "settings", "causal", "form", "show", "q", ...}.
Json attend_to(const Json& request) {
  AttentionOptions options{request.at("attention").get<std::string>()};
  for (const auto& [key, value] : request.at("settings").items())
    options.settings[key] = value.get<std::string>();
  const bool causal = request.at("causal").get<bool>();
  const attend::Form form = attend::parse_form(request.at("form").get<std::string>());
  attend::Inputs in{parse_rows(request.at("q"), "q"), parse_rows(request.at("k"), "k"),
                    parse_rows(request.at("v"), "v"),
                    request.contains("dy") ? parse_rows(request.at("dy"), "dy") : Tensor(),
                    gates_of(request, make_smallest(options)->gate())};
  require(in.k.shape() == in.q.shape() && in.v.size(2) == in.q.size(2),
          "q is {}, k {} and v {}: they have one length, and q and k one width", in.q.shape().str(),
          in.k.shape().str(), in.v.shape().str());
  const std::unique_ptr<Attention> attention = attend::attention_for(in, options);
  Json result;
  for (const auto& [name, tensor] : attend::compute(*attention, in, form, causal))
    if (tensor.dtype() == DType::f64) result[name] = rows_json(tensor);
  result["text"] = attend::show(options, in, form, causal, request.at("show"));
  if (!causal) return result;
  Json& films = result["states"] = Json::array();
  attend::each_step(*attention, in, [&](int64_t, const Tensor&, const AttentionState& state) {
    const std::vector<NamedTensor> parts = attend::parts_of(state, in.v.size(3));
    films.push_back({{"name", parts[0].name}, {"rows", rows_json(parts[0].tensor)}});
  });
  return result;
}

// `linea train --task digits --size 12 --levels 4 --examples 2000 --class-token --class-embedding every --layers 2 --dim 48
// --heads 4 --ffn 96 --batch 8 --rule gated --layer-convolution 2d --optimizer muon --lr 0.003 --min-lr 0.0003
// --warmup 20 --steps 150 --dropout 0`.
struct Training {
  static constexpr int64_t kHeads = 4, kDim = 48, kExamples = 2000, kSteps = 150, kWarmup = 20;
  static constexpr double kRate = 3e-3, kLastRate = 3e-4;

  Training(const std::string& attention, int64_t seed_of_run, int64_t rows)
      : seed(seed_of_run),
        batch(rows),
        task(digits(seed_of_run)),
        model(config_of(task->shape(), attention, seed_of_run)),
        optimizer({.name = "muon", .peak = kRate}, model.parameters()) {}

  // The training split alone.
  static std::unique_ptr<Task> digits(int64_t seed) {
    TaskOptions options{"digits",
                        {{"size", int64_t{12}}, {"levels", int64_t{4}}, {"class_token", true}},
                        static_cast<uint64_t>(seed)};
    options.settings = complete_settings(options);
    const TaskShape shape = task_shape(options);
    return make_image_task(
        shape, {render_digits(options.seed, first_training_digit(), kExamples, shape.side), {}, {}},
        options);
  }
  static ModelConfig config_of(const TaskShape& shape, const std::string& attention, int64_t seed) {
    ModelConfig config;
    config.layers = 2, config.heads = kHeads, config.dim = kDim, config.ffn = 96,
    config.seed = seed;
    config.layer_convolution = "2d";
    config.class_embedding = "every";
    config.attentions = parse_attentions(attention);
    config.length = shape.length;
    config.vocab_size = shape.vocab_size;
    config.input_vocab_size = shape.input_vocab_size;
    config.classes = shape.classes;
    config.image_width = shape.side, config.image_channels = shape.channels;
    return config;
  }

  double take_step() {
    context().step->seed = static_cast<uint64_t>(seed);
    context().step->step = static_cast<uint64_t>(step);
    const Batch rows =
        task->train_rows(static_cast<uint64_t>(seed), static_cast<uint64_t>(step * batch), batch);
    const Shape shape{rows.rows, rows.length};
    model.before_step(step, kSteps);
    const Var loss = model.output_head().loss(
        model.forward(token_tensor(rows.inputs, shape, task->input_vocab_size()), true),
        Tensor::from(rows.targets, shape));
    backward(loss);
    optimizer.step(learning_rate_at(step, kSteps, kWarmup, kRate, kLastRate), {}, loss.value());
    model.after_step();
    ++step;
    return loss.value().item();
  }

  int64_t seed, batch, step = 0;
  std::unique_ptr<Task> task;
  Transformer model;
  Optimizer optimizer;
};
std::unique_ptr<Training> training;

// Images that are being sampled: the first `given` tokens of each are there.
struct Sampling {
  Sampling(const Model& model, const std::vector<int32_t>& classes, std::vector<int32_t> upper,
           uint64_t number)
      : seed(number),
        given(std::move(upper)),
        state(model.start(std::ssize(classes))),
        tokens(Tensor::from(classes, {static_cast<int64_t>(classes.size())})) {}

  // The next token of each image.
  Json next(const Model& model) {
    const Tensor outputs = model.step(state, tokens);
    const auto position = static_cast<size_t>(state.position - 1);
    if (position < given.size()) {
      const std::vector<int32_t> same(static_cast<size_t>(tokens.numel()), given[position]);
      tokens.write(same.data());
    } else {
      model.output_head().sample(
          outputs, {}, {seed, Purpose::sample, 0, static_cast<uint64_t>(position)}, {tokens});
    }
    return tokens.to_vector<int32_t>();
  }

  // S [F,M] of the first image, in the first head of the last layer.
  Json state_json() const {
    const auto* linear = dynamic_cast<const LinearState*>(state.layers.back().attention.get());
    if (linear == nullptr) return {{"bytes", state.bytes()}};
    const auto sums = linear->recurrent.view<float>().sums;
    constexpr int64_t M = Training::kDim / Training::kHeads;
    Json rows = Json::array();
    for (int64_t f = 0; f < linear->recurrent.key_sum().size(2); ++f) {
      std::vector<float> row(sums.state + f * M, sums.state + (f + 1) * M);
      for (float& x : row) x *= sums.scale == nullptr ? 1 : std::exp(sums.scale[f]);
      rows.push_back(row);
    }
    return {{"bytes", state.bytes()}, {"S", rows}};
  }

  uint64_t seed;
  std::vector<int32_t> given;
  DecodeState state;
  Tensor tokens;
};
std::unique_ptr<Sampling> sampling;

}  // namespace
}  // namespace linea

using namespace linea;

extern "C" {

EMSCRIPTEN_KEEPALIVE const char* live_attend(const char* request) {
  return answer([&] { return attend_to(Json::parse(request)); });
}

// A new model. `attention`: a list as --attention takes it.
EMSCRIPTEN_KEEPALIVE const char* live_start(const char* attention, int seed, int batch) {
  return answer([&]() -> Json {
    sampling.reset();
    training.reset();
    training = std::make_unique<Training>(attention, seed, batch);
    int64_t parameters = 0;
    for (const Parameter& parameter : training->model.parameters())
      parameters += parameter.var.value().numel();
    return {{"parameters", parameters}, {"tokens", batch * training->task->length()}};
  });
}

EMSCRIPTEN_KEEPALIVE const char* live_step() {
  return answer([&]() -> Json {
    const double loss = training->take_step();
    return {{"step", training->step},
            {"loss", loss},
            {"gradient", training->optimizer.gradient_norm()}};
  });
}

// Begins images of these classes, [0, 3, ...]; `upper`: their first tokens, alike in all.
EMSCRIPTEN_KEEPALIVE const char* live_sample(const char* classes, const char* upper, int seed) {
  return answer([&]() -> Json {
    auto starts = Json::parse(classes).get<std::vector<int32_t>>();
    for (int32_t& start : starts) start += training->task->shape().start;
    sampling = std::make_unique<Sampling>(training->model, starts,
                                          Json::parse(upper).get<std::vector<int32_t>>(),
                                          static_cast<uint64_t>(seed));
    return Json::object();
  });
}

// The next `count` tokens of each image, [count][images], and the state after them.
EMSCRIPTEN_KEEPALIVE const char* live_next(int count) {
  return answer([&]() -> Json {
    Json tokens = Json::array();
    for (; count > 0 && sampling->state.position < training->task->length(); --count)
      tokens.push_back(sampling->next(training->model));
    return {{"tokens", tokens},
            {"position", sampling->state.position},
            {"state", sampling->state_json()}};
  });
}

}  // extern "C"
