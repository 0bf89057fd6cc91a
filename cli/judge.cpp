// linea judge: how good the samples of a run are, compared with its data.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <set>

#include "cli/commands.h"
#include "cli/flags.h"
#include "cli/sample_flags.h"
#include "cli/terminal.h"
#include "data/files.h"
#include "data/image.h"
#include "data/json.h"
#include "judge/image_judge.h"
#include "judge/text_judge.h"
#include "train/format.h"
#include "train/machine.h"
#include "train/record/run_history.h"
#include "train/record/table.h"
#include "train/samples.h"
#include "train/timing.h"

namespace linea {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
constexpr int64_t kJudgedImages = 1000, kJudgedTexts = 100;  // where --count is not said
constexpr int64_t kMinCaptioned = 48;                        // pixels of an image below a caption
constexpr int64_t kFrame = 3;                                // pixels around it
constexpr size_t kPairs = 16, kMaxPairs = 256, kPairsOfLine = 4;  // of a sheet
constexpr int64_t kMaxTokens = 100000000;                         // of all texts
constexpr double kWeak = 0.9;  // a classifier's accuracy below which it says so

struct JudgeOptions {
  std::string run, data, out, device = "cpu", dtype, weights = kLastWeights;
  std::optional<int64_t> count;
  int64_t tokens = 500, seed = 1, threads = 0;
  bool best = false, json = false;
  SamplingOptions sampling;
};

// ---- images ----

// Sample and training image of a pair, enlarged, in a frame that is colored for copies.
void append_framed(const ImageSet& set, int64_t image, int64_t scale, bool copy,
                   std::vector<uint8_t>& pixels) {
  constexpr uint8_t kCopy[3] = {213, 94, 0}, kOther[3] = {64, 64, 64};
  const int64_t inner = set.side * scale, side = inner + 2 * kFrame;
  const uint8_t* bytes = set.pixels.data() + image * set.image_bytes();
  for (int64_t y = -kFrame; y < side - kFrame; ++y)
    for (int64_t x = -kFrame; x < side - kFrame; ++x)
      for (int64_t c = 0; c < 3; ++c) {
        const bool inside = y >= 0 && x >= 0 && y < inner && x < inner;
        const int64_t pixel = y / scale * set.side + x / scale;
        pixels.push_back(inside ? bytes[pixel * set.channels + c % set.channels]
                                : (copy ? kCopy : kOther)[c]);
      }
}

// The numbers of the samples of a sheet: the nearest of each class, by class, then the nearest
// others. All copies (the first of `nearest_first`) are among them, up to kMaxPairs.
std::vector<size_t> choose_pairs(const std::vector<size_t>& nearest_first,
                                 const std::vector<uint8_t>& classes, size_t copies) {
  std::map<uint8_t, size_t> of_class;
  for (const size_t sample : nearest_first) of_class.emplace(classes[sample], sample);
  std::vector<size_t> chosen;
  std::set<size_t> seen;
  const auto choose = [&](size_t sample) {
    if (chosen.size() < kMaxPairs && seen.insert(sample).second) chosen.push_back(sample);
  };
  for (const auto& [label, sample] : of_class) choose(sample);
  for (size_t i = 0; i < nearest_first.size(); ++i)
    if (i < copies || chosen.size() < kPairs || chosen.size() % kPairsOfLine != 0)
      choose(nearest_first[i]);
  return chosen;
}

// Samples, each left of its nearest training image; copies have frames.
void write_sheet(const std::string& path, const ImageSet& samples, const ImageSet& training,
                 const ImageReport& report, const Nearness& nearness) {
  const std::vector<Neighbor>& nearest = report.of_samples;
  std::vector<size_t> order(nearest.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return nearest[a].distance < nearest[b].distance; });
  const bool asked = !report.by_class || report.by_class->right;
  const std::vector<size_t> chosen = choose_pairs(
      order, asked ? samples.labels : report.by_class->shown, static_cast<size_t>(nearness.copies));
  const int64_t scale = (kMinCaptioned + samples.side - 1) / samples.side;
  std::vector<uint8_t> pixels;
  for (const size_t sample : chosen) {
    const bool copy = nearest[sample].distance < nearness.min.real;
    append_framed(samples, static_cast<int64_t>(sample), scale, copy, pixels);
    append_framed(training, nearest[sample].index, scale, copy, pixels);
  }
  ImageGrid grid;
  grid.count = static_cast<int64_t>(2 * chosen.size());
  grid.height = grid.width = samples.side * scale + 2 * kFrame;
  grid.channels = 3;
  grid.columns = std::min<int64_t>(2 * kPairsOfLine, grid.count);
  for (int64_t column = 0; column < grid.columns; ++column)
    grid.captions.emplace_back(column % 2 == 0 ? "sample" : "training");
  write_png_grid(path, pixels, grid);
}

// The sheet's place without --out: the folder of the run, or of the file.
std::string sheet_in_run(const std::string& run) {
  std::error_code ignored;
  const fs::path path = fs::path(run) / "";
  const fs::path given =
      fs::is_directory(run, ignored) ? path.parent_path() : fs::path(run).parent_path();
  for (const fs::path& folder : {given, given.parent_path().parent_path()})
    if (is_run(folder)) return free_png_name((folder / "copies").string());
  return free_png_name((given / "copies").string());
}

// False where it cannot be written; the judgment is printed all the same.
bool try_to_write_sheet(const std::string& path, const ImageSet& samples, const ImageSet& training,
                        const ImageReport& report, const Nearness& nearness) try {
  write_sheet(path, samples, training, report, nearness);
  return true;
} catch (const Error& error) {
  if (error.kind() != ErrorKind::write) throw;
  fmt::print(stderr, "linea: {}; name another file with --out\n", printable(error.what()));
  return false;
}

Json to_json(const Measure& measure) {
  return {{"samples", measure.samples}, {"real", measure.real}};
}

// By which the Fréchet distance is measured.
const char* feature_name(const ImageReport& report) {
  return report.by_class ? "the classifier's units" : "8 x 8 means";
}

void print_json(const SavedModel& saved, const ImageReport& report, const Nearness& nearness,
                int64_t count, const std::string& sheet) {
  Json result = {{"step", saved.step}, {"count", count}, {"test_images", report.test_images}};
  if (const auto& by_class = report.by_class) {
    result["classifier"] = {{"sha256", by_class->hash}, {"accuracy", by_class->accuracy}};
    result["sure"] = to_json(by_class->sure);
    result["relatively_sure"] = by_class->sure.samples / by_class->sure.real;
    result["right"] = by_class->right ? Json(*by_class->right) : Json();
    result["classes"] = to_json(by_class->effective);
  }
  result["features"] = feature_name(report);
  result["frechet"] = to_json(report.frechet);
  result["nearest"] = {{"median", to_json(nearness.median)},
                       {"min", to_json(nearness.min)},
                       {"copies", nearness.copies}};
  if (!sheet.empty()) result["sheet"] = sheet;
  print_json_line(result);
}

void print_row(const char* name, const std::string& samples, const std::string& real,
               const std::string& note) {
  constexpr size_t kNote = 39;  // its column
  print_wrapped(fmt::format("{:<18} {:>8} {:>8}   {}", name, samples, real, note), kNote);
}

void print_row(const char* name, const Measure& measure, int digits, const std::string& note) {
  print_row(name, fmt::format("{:.{}f}", measure.samples, digits),
            fmt::format("{:.{}f}", measure.real, digits), note);
}

void print_judgment(const SavedModel& saved, const ImageReport& report, const Nearness& nearness,
                    int64_t count, const std::string& sheet) {
  fmt::print("{} of step {}, {} test images\n", plural(count, "sample"), saved.step,
             report.test_images);
  print_row("", "samples", "real", "");
  if (const auto& by_class = report.by_class) {
    print_row("sure", by_class->sure, 3,
              fmt::format("largest probability above {}; samples / real {:.3f}", kSure,
                          by_class->sure.samples / by_class->sure.real));
    if (by_class->right)
      print_row("right", {*by_class->right, by_class->accuracy}, 3, "of the class asked for");
    print_row("classes", by_class->effective, 2, fmt::format("of {}", by_class->classes));
  }
  print_row("Fréchet distance", report.frechet, 3,
            fmt::format("to the test images, by {}; real: training images", feature_name(report)));
  print_row("nearest, median", nearness.median, 3, "distance to a training image, pixels in 0..1");
  print_row("nearest, least", nearness.min, 3,
            fmt::format("{} nearer than the nearest of {} test images",
                        nearness.copies == 0 ? "no sample is" : plural(nearness.copies, "sample"),
                        report.of_tests.size()));
  if (const auto& by_class = report.by_class) {
    fmt::print("classifier {}: {:.2f}% of the test images right{}\n", by_class->hash.substr(0, 12),
               100 * by_class->accuracy, by_class->accuracy < kWeak ? ", a weak judge" : "");
  } else {
    fmt::print("no classes: no classifier; sure, right and classes are not measured\n");
  }
  if (!sheet.empty())
    fmt::print("{}\n", nearness.copies > 0 ? sheet + ": orange frames mark what is nearer" : sheet);
}

void judge_images(const SavedModel& saved, JudgeOptions& options, TerminalProgress& progress) {
  const int64_t count = options.count.value_or(kJudgedImages);
  require(count >= 2, "--count is {}; it must be at least 2", count);
  if (!options.out.empty()) const AtomicFile writable(options.out);  // refused now, not at the end
  const ImageJudge judge(saved.config);
  const ImageSet samples =
      sample_image_set(*saved.model, saved.shape, options.sampling, {count, -1},
                       show_time_left(progress, "tokens sampled"));
  use_machine(options.threads, "cpu");  // what judges is small, and has the same bits everywhere
  const ImageReport report =
      judge.judge(samples, saved.shape.classes > 0, cache_folder(), progress);
  if (progress.is_terminal()) progress.note("");
  const Nearness nearness = nearness_of(report);
  if (!options.out.empty()) {
    write_sheet(options.out, samples, judge.training_images(), report, nearness);
  } else if (nearness.copies > 0) {
    const std::string sheet = sheet_in_run(options.run);
    if (try_to_write_sheet(sheet, samples, judge.training_images(), report, nearness))
      options.out = sheet;
  }
  (options.json ? print_json : print_judgment)(saved, report, nearness, count, options.out);
}

// ---- text ----

Json to_json(const KnownWords& words) {
  return {{"words", words.words}, {"known", words.words == 0 ? Json() : Json(words.share())}};
}

void print_text_report(const SavedModel& saved, const TextReport& report, int64_t count,
                       const JudgeOptions& options) {
  if (options.json)
    return print_json_line({{"step", saved.step},
                            {"count", count},
                            {"tokens", options.tokens},
                            {"samples", to_json(report.of_samples)},
                            {"validation", to_json(report.of_validation)},
                            {"copied_unit", report.in_bytes ? "bytes" : "tokens"},
                            {"copied_run", report.run.length},
                            {"validation_run", report.validation_run.length},
                            {"copied", report.copied}});
  fmt::print("{} of {} tokens, of step {}\n", plural(count, "sample"), options.tokens, saved.step);
  print_row("", "samples", "real", "");
  print_row("known words", {report.of_samples.share(), report.of_validation.share()}, 3,
            "of three letters or more, in the training text; real: validation text");
  print_row("longest copy", std::to_string(report.run.length),
            std::to_string(report.validation_run.length),
            fmt::format("{} as in the training text; real: as much validation text",
                        report.in_bytes ? "bytes" : "tokens"));
  fmt::print("copied: {}\n", printable(report.copied));
}

void judge_text(const SavedModel& saved, const JudgeOptions& options, TerminalProgress& progress) {
  const int64_t count = options.count.value_or(kJudgedTexts);
  const std::unique_ptr<Task> task = make_saved_task(task_options(saved.config, saved.vocabulary));
  const Vocabulary vocabulary = Vocabulary::parse(saved.vocabulary);
  const std::vector<std::vector<int32_t>> prompts(static_cast<size_t>(count),
                                                  {vocabulary.start_token()});
  const auto samples = sample_rows(*saved.model, options.sampling, prompts, options.tokens,
                                   show_time_left(progress, "tokens sampled"));
  progress.show("comparing with the training text");
  const TextReport report = judge_text(*task, vocabulary, samples);
  if (progress.is_terminal()) progress.note("");
  print_text_report(saved, report, count, options);
}

// Before anything is read. What an image needs at least is known later.
void check_amounts(const JudgeOptions& options) {
  const int64_t count = options.count.value_or(kJudgedTexts);
  require(count >= 1 && count <= kMaxJudgedSamples, "--count is {}; choose 1 to {}", count,
          kMaxJudgedSamples);
  require(options.tokens >= 1 && options.tokens <= kMaxTokens / count,
          "--tokens is {}; with --count {} choose 1 to {}", options.tokens, count,
          kMaxTokens / count);
}

void run_judge(const CLI::App& command, JudgeOptions& options) {
  check_amounts(options);
  check_png_name(options.out);
  check_sampling_flags(options.sampling, options.seed);
  options.dtype = chosen_dtype(options.dtype, options.device);
  use_machine(options.threads, options.device, options.dtype.empty() ? "fp32" : options.dtype,
              Work::sampling);
  const Weights weights = weights_named(options.weights);
  SavedModel saved =
      load_model(options.best ? best_checkpoint(options.run, weights).string() : options.run,
                 options.dtype, weights);
  print_note(saved.note);
  const bool is_text = saved.shape.side == 0;
  require(saved.shape.second_vocab_size == 0 && saved.shape.answer_tokens == 0 &&
              (!is_text || !saved.vocabulary.empty()),
          "{} has no samples to judge: the task {} has right answers; see linea eval", options.run,
          saved.config.task);
  require(!was_given(command, is_text ? "--out" : "--tokens"),
          "{} has no meaning for a model of {}; leave it out", is_text ? "--out" : "--tokens",
          is_text ? "text" : "images");
  if (!options.data.empty()) set_data(saved.config, options.data);
  TerminalProgress progress;
  if (is_text) return judge_text(saved, options, progress);
  judge_images(saved, options, progress);
}

}  // namespace

void add_judge(CLI::App& program, int& exit_code) {
  CLI::App& command = add_command(
      program, "judge", "how good the samples of a run are, compared with its data",
      "Example:  linea judge runs/mnist --count 1000\n\nThe classifier is trained once for each "
      "data set, in less than a minute, and saved in $XDG_CACHE_HOME/linea (~/.cache/linea).");
  const auto options = std::make_shared<JudgeOptions>();
  add_option(command, "RUN", options->run,
             "a run, a checkpoint folder, or a model.safetensors file", OptionKind::required);
  add_option(command, "--count", options->count,
             fmt::format("images ({}) or texts ({}) to sample", kJudgedImages, kJudgedTexts));
  add_option(command, "--tokens", options->tokens, "tokens of a text", OptionKind::shows_default);
  add_flag(command, "--best", options->best,
           "the checkpoint with the lowest validation loss; default: the newest");
  add_weights_flag(command, options->weights, true);
  add_option(command, "--data", options->data, "the run's data, if moved since training");
  add_option(
      command, "--out", options->out,
      "PNG of the nearest sample of each class and of the samples nearest to training images, "
      "next to these; default: RUN/copies.png if a sample is nearer than the nearest of as "
      "many test images");
  add_sampling_flags(command, options->sampling, options->seed);
  add_option(command, "--threads", options->threads, "CPU threads; 0: all cores");
  add_option(command, "--device", options->device,
             "cpu, cuda, or a device by number such as cuda:1", OptionKind::shows_default);
  add_option(
      command, "--dtype", options->dtype,
      "fp32, bf16 (on a CPU: products of weights), tf32 on a CUDA device, or auto; default: as "
      "in training");
  add_flag(command, "--json", options->json, "one JSON object on stdout");
  set_action(command, [&command, options, &exit_code] {
    run_judge(command, *options);
    exit_code = 0;
  });
}

}  // namespace linea
