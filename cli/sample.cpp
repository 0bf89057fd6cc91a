// linea sample: images as a grid in a PNG, completions of images, their bits, or text on stdout
// as it is sampled.
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <numeric>
#include <optional>
#include <sstream>

#include "cli/commands.h"
#include "cli/flags.h"
#include "cli/sample_flags.h"
#include "cli/terminal.h"
#include "data/readers/image_file.h"
#include "data/readers/text_file.h"
#include "data/vocabulary.h"
#include "parallel/ranks.h"
#include "tensor/ops.h"
#include "train/format.h"
#include "train/inference/complete.h"
#include "train/inference/nll_map.h"
#include "train/inference/stop_text.h"
#include "train/machine.h"
#include "train/record/run_history.h"
#include "train/samples.h"
#include "train/timing.h"

namespace linea {
namespace {

constexpr const char* kTextSeparator = "---\n";
constexpr size_t kMaxLine = size_t{1} << 20;                     // bytes of a prompt that is a line
constexpr int64_t kImages = 64, kCompletions = 4, kNllMaps = 8;  // where --count is not said

struct SampleOptions {
  std::string run, data, out, prompt, prompt_file, prompts, class_name, device = "cpu", dtype,
                                                                        weights = kLastWeights;
  std::vector<std::string> complete, stops;
  std::optional<int64_t> count, keep_rows, scale;
  int64_t class_label = -1, tokens = 500, seed = 1, threads = 0;
  bool nll_map = false, interactive = false, best = false;
  SamplingOptions sampling;
};

// Samples by sample(progress), which returns a preview; `what` names the result.
void show_sampling(const SampleOptions& options, const std::string& what, int64_t count,
                   const std::function<std::string(const SamplingProgress&)>& sample) {
  TerminalProgress progress;
  const Stopwatch watch;
  const std::string preview = sample(show_time_left(progress, "tokens"));
  progress.note(fmt::format("{} in {:.1f}s: {:.2f} images/s", what, watch.seconds(),
                            static_cast<double>(count) / watch.seconds()));
  std::fputs(preview.c_str(), stdout);
  std::printf("%s\n", options.out.c_str());
}

void sample_images(const SavedModel& saved, const SampleOptions& options) {
  const int64_t count = options.count.value_or(kImages);
  const std::vector<std::string> names = class_names(saved.config.task, saved.vocabulary);
  const std::string of_class = options.class_label < 0 || names.empty()
                                   ? ""
                                   : fmt::format(" of class {} ({})", options.class_label,
                                                 names[static_cast<size_t>(options.class_label)]);
  show_sampling(options,
                fmt::format("{}{} of step {}", plural(count, "image"), of_class, saved.step), count,
                [&](const SamplingProgress& progress) {
                  return sample_images(*saved.model, saved.shape, options.sampling,
                                       {count, options.class_label, options.scale, &ranks()},
                                       options.out, color_terminal_width(), progress);
                });
}

void complete_images(const SavedModel& saved, const SampleOptions& options) {
  const std::vector<GivenImage> images = given_images(options.complete, saved, options.class_label);
  const int64_t count = options.count.value_or(kCompletions);
  const int64_t keep_rows = options.keep_rows.value_or(std::max<int64_t>(1, saved.shape.side / 2));
  const auto sample = [&](const SamplingProgress& progress) {
    return sample_completions(*saved.model, saved.shape, options.sampling, images, keep_rows, count,
                              options.scale, options.out, color_terminal_width(), progress);
  };
  const int64_t all = std::min(count, kMaxImagePixels) * static_cast<int64_t>(images.size());
  show_sampling(options, fmt::format("{} by step {}", plural(all, "completion"), saved.step), all,
                sample);
}

// A line for each image, and their mean.
void show_nll_map(const SavedModel& saved, const SampleOptions& options) {
  if (options.count)
    require(*options.count >= 1, "--count is {}; it must be at least 1", *options.count);
  const std::vector<GivenImage> images =
      options.complete.empty()
          ? first_test_images(options.count, kNllMaps, saved, options.class_label)
          : given_images(options.complete, saved, options.class_label);
  const std::vector<std::vector<float>> bits = token_bits(*saved.model, images);
  const std::string preview =
      write_nll_map(saved.shape, images, bits, options.scale, options.out, color_terminal_width());
  double all = 0;
  for (size_t i = 0; i < images.size(); ++i) {
    const double mean =
        std::accumulate(bits[i].begin(), bits[i].end(), 0.0) / static_cast<double>(bits[i].size());
    fmt::print("{}: {:.4f} bits/dim\n", images[i].name, mean);
    all += mean / static_cast<double>(images.size());
  }
  fmt::print("mean of {}: {:.4f} bits/dim\n{}{}\n", images.size(), all, preview, options.out);
}

void print_now(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

std::string read_prompts(const SavedModel& saved, const std::string& file) {
  const bool bytes = Vocabulary::parse(saved.vocabulary).kind() == Vocabulary::Kind::bytes;
  return read_text_file(file, bytes ? TextKind::name : TextKind::content);
}

// Ends of lines as Windows writes them.
void drop_carriage_return(std::string& line) {
  if (line.ends_with('\r')) line.pop_back();
}

// The next line of standard input; false at its end. Of a longer line than `kMaxLine` the
// beginning.
bool next_line(std::string& line, size_t& bytes) {
  line.clear();
  bytes = 0;
  int c = 0;
  while ((c = std::getchar()) != EOF && c != '\n')
    if (++bytes <= kMaxLine) line += static_cast<char>(c);
  drop_carriage_return(line);
  if (std::ferror(stdin) != 0)
    fail(ErrorKind::input, "standard input cannot be read: {}", std::strerror(errno));
  return c != EOF || bytes > 0;
}

// Continues each line of stdin. A line that the model cannot read is reported and skipped.
void answer_lines(const SavedModel& saved, SampleOptions options) {
  require(options.tokens >= 1, "--tokens is {}; it must be at least 1", options.tokens);
  static_cast<void>(StopText(options.stops));  // refuses an empty one
  const bool asks = isatty(STDIN_FILENO) == 1;
  const auto ask = [&] {
    if (asks) std::fputs("> ", stderr);
  };
  ask();
  size_t bytes = 0;
  for (std::string line; next_line(line, bytes); ask()) {
    try {
      if (bytes > kMaxLine)
        fail(ErrorKind::input, "a line of {} bytes is too long, at most {} can be read; shorten it",
             bytes, kMaxLine);
      sample_text(*saved.model, saved.vocabulary, options.sampling,
                  {line, options.tokens, options.stops}, print_now);
      print_now("\n");
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::input) throw;
      fmt::print(stderr, "linea: {}\n", printable(error.what()));
    }
    ++options.sampling.first_row;  // the same line gets another answer
  }
  if (asks) std::fputc('\n', stderr);
}

// The lines of a file that are not empty, which the model can read.
std::vector<std::string> prompts_in(const SavedModel& saved, const std::string& file) {
  const Vocabulary vocabulary = Vocabulary::parse(saved.vocabulary);
  std::istringstream lines(read_prompts(saved, file));
  std::vector<std::string> prompts;
  int64_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    drop_carriage_return(line);
    if (line.empty()) continue;
    vocabulary.encode(line, fmt::format("{}, line {}:", file, number));
    prompts.push_back(line);
  }
  if (prompts.empty())
    fail(ErrorKind::input, "{}: every line is empty; write a prompt on each", file);
  return prompts;
}

// One text as it is sampled, several after each other when they are complete.
void sample_text(const SavedModel& saved, const SampleOptions& options) {
  require(!saved.vocabulary.empty(), "this model does not sample text");
  if (options.interactive) return answer_lines(saved, options);
  const std::vector<std::string> prompts =
      !options.prompts.empty()
          ? prompts_in(saved, options.prompts)
          : std::vector{options.prompt_file.empty() ? options.prompt
                                                    : read_prompts(saved, options.prompt_file)};
  const int64_t count = options.count.value_or(1), all = static_cast<int64_t>(prompts.size());
  if (count == 1 && all == 1) {
    sample_text(*saved.model, saved.vocabulary, options.sampling,
                {prompts[0], options.tokens, options.stops}, print_now);
    return print_now("\n");
  }
  TerminalProgress progress;
  const auto show = show_time_left(progress, "tokens");
  bool first = true;
  const auto print = [&](const std::string& text) {
    print_now((first ? "" : kTextSeparator) + text + "\n");
    first = false;
  };
  SamplingOptions sampling = options.sampling;
  for (int64_t i = 0; i < all; ++i, sampling.first_row += count)
    sample_texts(*saved.model, saved.vocabulary, sampling,
                 {prompts[static_cast<size_t>(i)], options.tokens, options.stops}, count, print,
                 [&](int64_t done, int64_t each) { show(i * each + done, all * each); });
  if (progress.is_terminal()) progress.note("");
}

void refuse_flags(const CLI::App& command, const std::string& where,
                  const std::vector<std::string>& flags) {
  for (const std::string& flag : flags)
    require(!was_given(command, flag), "{} has no meaning {}; leave it out", flag, where);
}

void add_flags(CLI::App& command, SampleOptions& options) {
  add_option(command, "RUN", options.run, "a run, a checkpoint folder, or a model.safetensors file",
             OptionKind::required);
  add_option(
      command, "--count", options.count,
      fmt::format("images to sample ({}), completions per image ({}), images of --nll-map ({}), or "
                  "texts (1)",
                  kImages, kCompletions, kNllMaps));
  add_flag(command, "--best", options.best,
           "the checkpoint with the lowest validation loss; default: the newest");
  add_weights_flag(command, options.weights, true);
  add_option(command, "--out", options.out,
             "PNG file to write; default: grid.png, or grid-2.png and so on if it exists");
  add_option(
      command, "--class", options.class_name,
      "sample this class only, by its name or its number (linea info RUN lists them); default: all "
      "classes in turn, or the class of the given image");
  add_option(command, "--complete", options.complete,
             "keep the upper rows of these images and sample the rest: PNG or JPEG files, or "
             "test:7 for an image of the run's data");
  add_option(command, "--keep-rows", options.keep_rows,
             "rows that --complete keeps; default: half of them");
  add_option(command, "--scale", options.scale,
             fmt::format("width and height of a pixel in the PNG, 1 to {}; default: what makes an "
                         "image about 56 wide",
                         kMaxScale));
  add_flag(
      command, "--nll-map", options.nll_map,
      "bits per pixel as a heat map, for the images of --complete or the first of the test split");
  add_option(command, "--data", options.data, "the run's data, if moved since training");
  add_option(command, "--prompt", options.prompt, "text to continue");
  add_option(command, "--prompt-file", options.prompt_file,
             "file with text to continue, plain, .gz or .zip");
  add_option(command, "--prompts", options.prompts,
             "file with a prompt on each line, each continued --count times; empty lines are left "
             "out");
  add_flag(command, "--interactive", options.interactive,
           "continue each line of standard input, until its end");
  const std::vector<const char*> one_of = {"--prompt", "--prompt-file", "--prompts",
                                           "--interactive"};
  for (size_t i = 0; i < one_of.size(); ++i)
    for (size_t j = 0; j < i; ++j) exclude_each_other(command, one_of[j], one_of[i]);
  exclude_each_other(command, "--interactive", "--count");
  add_option(command, "--stop", options.stops,
             "end a text before this string, once it is sampled; may be given several times",
             OptionKind::repeatable);
  add_option(command, "--tokens", options.tokens, "text tokens to sample",
             OptionKind::shows_default);
  add_sampling_flags(command, options.sampling, options.seed);
  add_option(command, "--threads", options.threads, "CPU threads; 0: all cores");
  add_option(command, "--device", options.device, "cpu, cuda, or a device by number such as cuda:1",
             OptionKind::shows_default);
  add_option(
      command, "--dtype", options.dtype,
      "fp32, bf16 (on a CPU: products of weights), tf32 on a CUDA device, or auto; default: as "
      "in training");
}

// Refuses flags that do not apply to this model, or to this kind of image.
void check_flags(const CLI::App& command, const SavedModel& saved, const SampleOptions& options) {
  require(saved.shape.second_vocab_size == 0 && saved.shape.answer_tokens == 0,
          "{} answers questions of the task {}; there is nothing to sample: see linea eval",
          options.run, saved.config.task);
  if (saved.shape.side == 0)
    return refuse_flags(
        command, "for a model of text",
        {"--out", "--class", "--complete", "--keep-rows", "--nll-map", "--scale", "--data"});
  refuse_flags(command, "for a model of images",
               {"--prompt", "--prompt-file", "--prompts", "--interactive", "--tokens", "--stop"});
  if (options.nll_map)
    refuse_flags(
        command, "with --nll-map, which samples nothing",
        {"--keep-rows", "--temperature", "--top-k", "--top-p", "--guidance", "--greedy", "--seed"});
  if (options.nll_map && context().device.kind == DeviceKind::cpu)
    refuse_flags(command, "with --nll-map on a CPU, which computes its bits in fp32", {"--dtype"});
  if (options.complete.empty()) {
    refuse_flags(command, "without --complete", {"--keep-rows"});
    if (!options.nll_map) refuse_flags(command, "without --complete or --nll-map", {"--data"});
  } else if (options.nll_map) {
    refuse_flags(command, "with --nll-map and --complete, which names the images", {"--count"});
  }
}

void run_sample(const CLI::App& command, SampleOptions& options) {
  check_png_name(options.out);
  for (const auto& [flag, file] :
       {std::pair("--prompts", &options.prompts), {"--prompt-file", &options.prompt_file}})
    require(!was_given(command, flag) || !file->empty(), "{} is empty; name a file", flag);
  for (const std::string& image : options.complete)
    require(!image.starts_with("--"), "--complete needs an image before {}", image);
  check_sampling_flags(options.sampling, options.seed);
  options.dtype = chosen_dtype(options.dtype, options.device);
  const std::string dtype = options.dtype.empty() ? "fp32" : options.dtype;
  use_machine(options.threads, options.device, dtype, Work::sampling);
  const Weights weights = weights_named(options.weights);
  SavedModel saved =
      load_model(options.best ? best_checkpoint(options.run, weights).string() : options.run,
                 options.dtype, weights);
  print_note(saved.note);
  check_flags(command, saved, options);
  if (was_given(command, "--class")) options.class_label = find_class(saved, options.class_name);
  if (!options.data.empty()) set_data(saved.config, options.data);
  if (options.out.empty() && saved.shape.side > 0) options.out = free_png_name("grid");
  require(ranks().alone() || (saved.shape.side > 0 && !options.nll_map && options.complete.empty()),
          "several ranks share the images that they sample, not texts, completions or maps: start "
          "linea once");
  if (saved.shape.side == 0) return sample_text(saved, options);
  if (options.nll_map) return show_nll_map(saved, options);
  if (!options.complete.empty()) return complete_images(saved, options);
  sample_images(saved, options);
}

}  // namespace

void add_sample(CLI::App& program, int& exit_code) {
  CLI::App& command = add_command(
      program, "sample", "sample images or text from a trained model, complete images",
      "Example:  linea sample runs/digits --count 100 --temperature 0.7 --out digits.png");
  const auto options = std::make_shared<SampleOptions>();
  add_flags(command, *options);
  set_action(command, [&command, options, &exit_code] {
    run_sample(command, *options);
    exit_code = 0;
  });
}

}  // namespace linea
