// The record of a reader's own run: W16 to W19, and what its folder says.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>

#include "base/error.h"
#include "data/files.h"
#include "data/json.h"
#include "data/page.h"
#include "data/vocabulary.h"
#include "lab/measure.h"
#include "lab/run_page.h"
#include "train/commands.h"
#include "train/evaluate.h"
#include "train/format.h"
#include "train/inference/nll_map.h"
#include "train/record/curves.h"
#include "train/samples.h"
#include "train/timing.h"

namespace linea::lab {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr int64_t kImages = 2, kCompletions = 6, kContinuations = 3;
constexpr size_t kShownText = 256, kPromptShare = 3;  // characters; a third of them is given
constexpr uintmax_t kMaxSample = 100000;              // bytes of a sheet or text

Json json_of(const Chart& chart) {
  Json series = Json::array();
  for (const Series& one : chart.series) {
    std::vector<double> x, y;
    for (size_t i = 0; i < one.y.size(); ++i)
      if (std::isfinite(one.y[i])) x.push_back(one.x[i]), y.push_back(one.y[i]);
    series.push_back({{"part", one.part},
                      {"dash", one.dash},
                      {"markers", one.markers},
                      {"hollow", one.hollow},
                      {"x", rows_json(Rows{x})[0]},
                      {"y", rows_json(Rows{y})[0]}});
  }
  return {{"title", chart.title},
          {"x", chart.x.label},
          {"y", chart.y.label},
          {"logarithmic", chart.y.logarithmic},
          {"series", series}};
}

// W16: curves, and the last number of each metric.
Json measure_curves(const RunHistory& history) {
  Json charts = Json::array(), last = Json::object();
  for (const char* metric : {"loss", "lr"})
    if (history.last(metric) != nullptr)
      charts.push_back(json_of(
          metric_chart(metric, {history}, {""}, {.logarithmic = std::string(metric) == "loss"})));
  for (const MetricsLine& line : history.lines)
    for (const auto& [name, value] : line.values)
      if (std::isfinite(value)) last[name] = rounded(value, 6);
  return {{"charts", charts}, {"last", last}};
}

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) /
         static_cast<double>(std::max<size_t>(values.size(), 1));
}

// W17 of an image: its levels, and the bits of each pixel, the sum over its channels.
Json bits_json(const GivenImage& image, const std::vector<float>& bits, const TaskShape& shape) {
  const auto side = static_cast<size_t>(shape.side), channels = static_cast<size_t>(shape.channels);
  Rows pixels(side, std::vector<double>(side, 0.0));
  std::vector<double> rows(side, 0.0), columns(side, 0.0);
  for (size_t i = 0; i < bits.size(); ++i) {
    const size_t pixel = i / channels;
    const auto own = static_cast<double>(bits[i]);
    pixels[pixel / side][pixel % side] += own;
    rows[pixel / side] += own / static_cast<double>(side);
    columns[pixel % side] += own / static_cast<double>(side);
  }
  const auto dearest = std::max_element(rows.begin(), rows.end()) - rows.begin();
  return {{"name", image.name},
          {"tokens", image.tokens},
          {"bits", rows_json(pixels, 4)},
          {"mean", rounded(mean(rows), 6)},
          {"rows", rows_json(Rows{rows}, 4)[0]},
          {"columns", rows_json(Rows{columns}, 4)[0]},
          {"dearest_row", dearest + 1}};
}

void measure_images(const SavedModel& saved, const RunPageRequest& request, Json& figures) {
  const TaskShape& shape = saved.shape;
  std::vector<std::string> names = request.on;
  if (names.empty()) {
    const auto task = make_saved_task(task_options(saved.config, saved.vocabulary));
    const Split split = task->has(Split::test) ? Split::test : Split::val;
    for (int64_t i = 0; i < std::min(kImages, task->rows(split)); ++i)
      names.push_back(fmt::format("{}:{}", split_name(split), i));
  }
  const std::vector<GivenImage> images = given_images(names, saved, -1);
  const std::vector<std::vector<float>> bits = token_bits(*saved.model, images);
  const Json size = {{"side", shape.side}, {"channels", shape.channels}, {"levels", shape.levels}};
  Json maps = size, halves = size, stages = size;
  maps["uniform"] = rounded(
      static_cast<double>(shape.channels) * std::log2(static_cast<double>(shape.levels)), 6);
  SamplingOptions options;
  options.seed = static_cast<uint64_t>(request.seed);
  const int64_t rows = shape.side / 2, given = rows * shape.side * shape.channels;
  halves["rows"] = rows;
  std::vector<std::vector<int32_t>> prompts;
  for (const GivenImage& image : images) {
    prompts.emplace_back(1, image.start);
    prompts.back().insert(prompts.back().end(), image.tokens.begin(), image.tokens.begin() + given);
    prompts.insert(prompts.end(), kCompletions - 1, prompts.back());
  }
  const auto sampled = sample_rows(*saved.model, options, prompts, shape.length - given, {});
  for (size_t i = 0; i < images.size(); ++i) {
    maps["images"].push_back(bits_json(images[i], bits[i], shape));
    halves["images"].push_back({{"name", images[i].name}, {"tokens", images[i].tokens}});
    for (size_t j = 0; j < kCompletions; ++j)
      halves["images"].back()["completions"].push_back(sampled[i * kCompletions + j]);
  }
  stages["tokens"] = sample_rows(*saved.model, options, {{images[0].start}}, shape.length, {})[0];
  figures["w17"] = maps;
  figures["w18"] = halves;
  figures["w19"] = stages;
  std::vector<int32_t> read = {images[0].start};
  read.insert(read.end(), images[0].tokens.begin(), images[0].tokens.end() - 1);
  figures["w20"] = measure_heads(
      *saved.model, token_tensor(read, {1, shape.length}, saved.model->config().input_vocab_size));
  figures["w20"]["on"] = images[0].name;
}

// A row of the task's validation data, or the text that is asked for.
Batch row_to_read(const SavedModel& saved, const RunPageRequest& request) {
  if (request.on.empty())
    return make_saved_task(task_options(saved.config, saved.vocabulary))
        ->eval_batch(Split::val, 0, 1);
  require(is_text(saved.shape) && request.on.size() == 1,
          "`on` is images of the data or files for a model of images, and one text for a model of "
          "text");
  const Vocabulary vocabulary = Vocabulary::parse(saved.vocabulary);
  Batch batch;
  batch.targets = vocabulary.encode(request.on[0], "`on`");
  require(!batch.targets.empty() && std::ssize(batch.targets) <= saved.model->config().length,
          "`on` has {} tokens; the model reads 1 to {}", batch.targets.size(),
          saved.model->config().length);
  batch.rows = 1;
  batch.length = std::ssize(batch.targets);
  batch.inputs = {vocabulary.start_token()};
  batch.inputs.insert(batch.inputs.end(), batch.targets.begin(), batch.targets.end() - 1);
  return batch;
}

// W17 of other sequences: the bits of each scored token; of a text with its characters, and what the
// model continues.
void measure_sequence(const SavedModel& saved, const RunPageRequest& request, Json& figures) {
  const NoGrad no_grad;
  const Batch batch = row_to_read(saved, request);
  const Model& model = *saved.model;
  const Shape shape{1, batch.length};
  const ModelConfig& config = model.config();
  const ModelInputs inputs(token_tensor(batch.inputs, shape, config.input_vocab_size),
                           batch.second_inputs.empty()
                               ? Tensor()
                               : token_tensor(batch.second_inputs, shape, config.second_vocab_size),
                           batch.lengths.empty() ? Tensor() : Tensor::from(batch.lengths, {1}));
  const std::vector<float> nats =
      model.output_head()
          .losses(model.forward(inputs, false).value(), Tensor::from(batch.targets, shape))
          .to_vector<float>();
  std::optional<Vocabulary> vocabulary;
  if (is_text(saved.shape)) vocabulary = Vocabulary::parse(saved.vocabulary);
  Json text = Json::array();
  std::vector<double> bits;
  for (size_t i = 0; i < nats.size(); ++i) {
    if (batch.targets[i] == kNotScored) continue;
    bits.push_back(rounded(to_bits(nats[i]), 4));
    text.push_back(vocabulary ? vocabulary->decode({batch.targets[i]})
                              : std::to_string(batch.targets[i]));
    if (bits.size() == kShownText) break;
  }
  figures["w17"] = {
      {"text", text},
      {"bits", bits},
      {"mean", rounded(mean(bits), 6)},
      {"uniform", rounded(std::log2(static_cast<double>(saved.shape.vocab_size)), 6)}};
  if (vocabulary) {
    std::string prompt;
    for (size_t i = 0; i < text.size() / kPromptShare; ++i) prompt += text[i].get<std::string>();
    SamplingOptions options;
    options.seed = static_cast<uint64_t>(request.seed);
    Json continuations = Json::array();
    sample_texts(model, saved.vocabulary, options, {prompt, static_cast<int64_t>(text.size())},
                 kContinuations, [&](const std::string& one) { continuations.push_back(one); });
    figures["w18"] = {{"prompt", prompt}, {"continuations", continuations}};
  }
  if (Json heads = measure_heads(model, inputs); !heads.is_null()) {
    figures["w20"] = heads;
    figures["w20"]["on"] =
        request.on.empty() ? "the first sequence of the validation split" : "the given text";
  }
}

// The newest sheet of samples, or text.
Json newest_sample(const fs::path& run) {
  const std::vector<std::string> files = sample_files(run);
  if (files.empty() || fs::file_size(files.back()) > kMaxSample) return nullptr;
  const fs::path file = files.back();
  const bool image = file.extension() == ".png";
  const std::string bytes = read_file(file);
  return {
      {"name", file.stem().string()}, {"image", image}, {"bytes", image ? base64(bytes) : bytes}};
}

}  // namespace

Json measure_run(const SavedModel& saved, const RunPageRequest& request) {
  Json figures = {{"w16", measure_curves(read_history(request.run))}};
  if (saved.shape.side > 0 && saved.shape.answer_tokens == 0)
    measure_images(saved, request, figures);
  else
    measure_sequence(saved, request, figures);
  return figures;
}

namespace {

// "run-NAME", other characters than letters, digits and "._=-" as "_"; with a number where another run has
// that name.
std::string page_name(const fs::path& folder, const std::string& run) {
  std::string name = "run-" + fs::path(run).filename().string();
  for (char& c : name)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 &&
        std::string("._=-").find(c) == std::string::npos)
      c = '_';
  for (int number = 1;; ++number) {
    const std::string numbered = number == 1 ? name : fmt::format("{}-{}", name, number);
    const fs::path file = folder / "data" / (numbered + ".json");
    if (!fs::exists(file) || Record(file).text("/folder") == run) return numbered;
  }
}

}  // namespace

std::string write_run_record(const fs::path& folder, const RunPageRequest& request) {
  require(is_run(request.run), "{} is no run: name the folder of `linea train --out`",
          request.run.string());
  const Stopwatch watch;
  SavedModel saved = load_model(request.run, "fp32");
  if (!request.data.empty()) set_data(saved.config, request.data);
  const Json figures = measure_run(saved, request);
  Json settings = Json::object();
  for (const AppliedSetting& applied : applied_settings(saved.config))
    settings[applied.setting.key] = to_string(applied.value);
  std::string command = "linea lab page " + shell_quote(request.run.string());
  for (const std::string& on : request.on) command += " --on " + shell_quote(on);
  if (!request.data.empty()) command += " --data " + shell_quote(request.data);
  if (request.seed != 1) command += fmt::format(" --seed {}", request.seed);
  Json document =
      record_head(command + " --out lab", request.version, request.seed, watch.seconds());
  const std::string run = fs::absolute(request.run / "").lexically_normal().parent_path().string();
  document.update({{"run", fs::path(run).filename().string()},
                   {"folder", run},
                   {"attention", label_of(attention_options(saved.config))},
                   {"task", saved.config.task},
                   {"step", saved.step},
                   {"steps", saved.config.steps},
                   {"commands", recorded_commands(request.run)},
                   {"settings", settings},
                   {"sample", newest_sample(request.run)},
                   {"figures", figures}});
  make_folders(folder / "data");
  const std::string name = page_name(folder, run);
  write_file_atomically(folder / "data" / (name + ".json"), dump_json(document, 1) + "\n");
  return name;
}

}  // namespace linea::lab
