#include "judge/image_judge.h"

#include <algorithm>
#include <cstdlib>

#include "base/settings.h"
#include "data/files.h"
#include "data/hash.h"
#include "data/safetensors.h"
#include "judge/classifier.h"
#include "judge/frechet.h"
#include "tensor/context.h"
#include "train/timing.h"

namespace linea {
namespace {

namespace fs = std::filesystem;
constexpr const char* kFormat = "linea-judge-1";
constexpr int64_t kCells = 8;  // of a side

// The run's task with a class token, unless classes are only known where the run has them.
TaskOptions judged_options(const RunConfig& config) {
  TaskOptions options = task_options(config, "");
  if (!find_task(options.name).has_vocabulary) options.settings["class_token"] = true;
  options.settings.erase("class_dropout");
  return options;
}

ImageSet read_split(const Task& task, Split split) {
  constexpr int64_t kRows = 1000;
  ImageSet images{task.shape().side, task.shape().channels, {}, {}};
  for (int64_t first = 0; first < task.rows(split); first += kRows) {
    const int64_t count = std::min(kRows, task.rows(split) - first);
    append(images, images_of(task.shape(), task.eval_batch(split, first, count)));
  }
  return images;
}

// `count` of the images with these numbers, evenly spaced, or all if there are fewer.
void add_evenly_spaced(const ImageSet& images, const std::vector<int64_t>& numbers, int64_t count,
                       ImageSet& result) {
  const auto all = static_cast<int64_t>(numbers.size());
  for (int64_t i = 0; i < std::min(count, all); ++i) {
    const int64_t image = numbers[static_cast<size_t>(count < all ? i * all / count : i)];
    const auto pixels = images.pixels.begin() + image * images.image_bytes();
    result.labels.push_back(images.labels[static_cast<size_t>(image)]);
    result.pixels.insert(result.pixels.end(), pixels, pixels + images.image_bytes());
  }
}

// The numbers of the images of each class, or of all where `classes` is 0.
std::vector<std::vector<int64_t>> by_class(const ImageSet& images, int64_t classes) {
  std::vector<std::vector<int64_t>> numbers(static_cast<size_t>(std::max<int64_t>(1, classes)));
  for (int64_t i = 0; i < images.count(); ++i)
    numbers[classes > 0 ? images.labels[static_cast<size_t>(i)] : 0].push_back(i);
  return numbers;
}

// As many images of each class as `count` samples of the classes in turn have. `count` of all with
// 0 classes, or where fewer than two images are of these classes.
ImageSet comparable(const ImageSet& images, int64_t count, int64_t classes) {
  ImageSet result{images.side, images.channels, {}, {}};
  const std::vector<std::vector<int64_t>> numbers = by_class(images, classes);
  const auto all = static_cast<int64_t>(numbers.size());
  for (int64_t c = 0; c < all; ++c)
    add_evenly_spaced(images, numbers[static_cast<size_t>(c)], (count + all - 1 - c) / all, result);
  if (classes > 0 && result.count() < std::min<int64_t>(2, images.count()))
    return comparable(images, count, 0);
  return result;
}

// Weights that sum to 1: equal for each class that there is, and within a class.
std::vector<double> class_weights(const ImageSet& images, int64_t classes) {
  std::vector<double> weights(static_cast<size_t>(images.count()));
  const std::vector<std::vector<int64_t>> numbers = by_class(images, classes);
  const auto present =
      std::count_if(numbers.begin(), numbers.end(), [](const auto& one) { return !one.empty(); });
  for (const std::vector<int64_t>& one : numbers)
    for (const int64_t i : one)
      weights[static_cast<size_t>(i)] =
          1 / static_cast<double>(present) / static_cast<double>(one.size());
  return weights;
}

// Hash of all that the weights of a classifier depend on. Data that is read counts by its checksum,
// generated data by its settings.
std::string classifier_key(const Task& task, const TaskOptions& options) {
  std::string text = fmt::format("{}; {}; {}\n", kFormat, classifier_settings(), options.name);
  for (const auto& [key, value] : complete_settings(options))
    if (key != "data" && key != "class_dropout")
      text += fmt::format("{} = {}\n", key, to_string(value));
  const std::string data = task.fingerprint();
  return hash_bytes(text + (data.empty() ? fmt::format("seed {}", options.seed) : data));
}

// False where there is no such file, or another one.
bool load(const fs::path& path, const std::string& key, const Parameters& parameters) try {
  std::error_code error;
  if (!fs::exists(path, error)) return false;
  const SafetensorsFile file = SafetensorsFile::open(path);
  const auto found = file.metadata().find("key");
  if (found == file.metadata().end() || found->second != key) return false;
  std::vector<Tensor> tensors;
  for (const Parameter& parameter : parameters) {
    tensors.push_back(file.read(parameter.name));
    if (tensors.back().shape() != parameter.var.shape()) return false;
  }
  for (size_t i = 0; i < tensors.size(); ++i) {
    Var var = parameters[i].var;
    var.set_value(tensors[i]);
  }
  return true;
} catch (const Error& error) {
  if (error.kind() != ErrorKind::input) throw;
  return false;
}

void save(const fs::path& path, const std::string& key, const Parameters& parameters,
          ProgressReporter& progress) try {
  std::vector<NamedTensor> tensors;
  for (const Parameter& parameter : parameters)
    tensors.push_back({parameter.name, parameter.var.value()});
  make_folders(path.parent_path());
  write_safetensors(path, tensors, {{"key", key}});
} catch (const Error& error) {
  if (error.kind() != ErrorKind::write) throw;
  progress.note(fmt::format("the classifier is not saved: {}", error.what()));
}

// The class with the largest probability, and that probability.
std::pair<int64_t, double> most_likely(const float* probabilities, int64_t classes) {
  const float* best = std::max_element(probabilities, probabilities + classes);
  return {best - probabilities, *best};
}

struct Judgment {
  double sure = 0, right = 0, effective = 0;
  std::vector<uint8_t> shown;  // the most likely class of each
};

// p = mean prediction, by weights that sum to 1;  effective classes = exp(-sum_c p_c log p_c)
Judgment judge_classes(const std::vector<float>& probabilities, const std::vector<uint8_t>& labels,
                       const std::vector<double>& weights, int64_t classes) {
  Judgment result;
  std::vector<double> mean(static_cast<size_t>(classes));
  const auto count = static_cast<double>(labels.size());
  for (size_t i = 0; i < labels.size(); ++i) {
    const float* row = probabilities.data() + static_cast<int64_t>(i) * classes;
    const auto [label, probability] = most_likely(row, classes);
    result.sure += probability > kSure ? 1 : 0;
    result.right += label == labels[i] ? 1 : 0;
    result.shown.push_back(static_cast<uint8_t>(label));
    for (size_t c = 0; c < mean.size(); ++c) mean[c] += weights[i] * row[c];
  }
  result.sure /= count;
  result.right /= count;
  double entropy = 0;
  for (const double p : mean) entropy -= p > 0 ? p * std::log(p) : 0;
  result.effective = std::exp(entropy);
  return result;
}

// Images that training flips count with their mirror images.
std::vector<Neighbor> nearest_training_images(const ImageSet& images, const ImageSet& training,
                                              bool flipped, ProgressReporter& progress) {
  std::vector<Neighbor> nearest =
      nearest_images(images, training, show_time_left(progress, "images compared"));
  if (!flipped) return nearest;
  const std::vector<Neighbor> others = nearest_images(
      mirrored(images), training, show_time_left(progress, "mirror images compared"));
  for (size_t i = 0; i < nearest.size(); ++i)
    if (others[i].distance < nearest[i].distance) nearest[i] = others[i];
  return nearest;
}

// To the test images, of samples and of training images.
Measure frechet_distances(const std::vector<float>& samples, const std::vector<float>& training,
                          const std::vector<float>& tests, const std::vector<double>& weights,
                          int64_t features) {
  const Moments real = moments(tests, features, weights);
  return {frechet_distance(moments(samples, features), real),
          frechet_distance(moments(training, features), real)};
}

}  // namespace

Nearness nearness_of(const ImageReport& report) {
  const auto sorted_distances = [](const std::vector<Neighbor>& neighbors) {
    std::vector<double> distances;
    for (const Neighbor& neighbor : neighbors) distances.push_back(neighbor.distance);
    std::sort(distances.begin(), distances.end());
    return distances;
  };
  const std::vector<double> samples = sorted_distances(report.of_samples),
                            tests = sorted_distances(report.of_tests);
  const auto copies = std::lower_bound(samples.begin(), samples.end(), tests[0]) - samples.begin();
  return {{median(samples), median(tests)}, {samples[0], tests[0]}, copies};
}

fs::path cache_folder() {
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return fs::path(value == nullptr ? "" : value);
  };
  if (const fs::path cache = variable("XDG_CACHE_HOME"); !cache.empty()) return cache / "linea";
  const fs::path home = variable("HOME");
  return home.empty() ? home : home / ".cache" / "linea";
}

std::vector<float> cell_means(const ImageSet& images) {
  const int64_t side = images.side, cells = std::min(side, kCells);
  std::vector<float> means;
  for (int64_t image = 0; image < images.count(); ++image)
    for (int64_t row = 0; row < cells; ++row)
      for (int64_t column = 0; column < cells; ++column) {
        const int64_t top = row * side / cells, bottom = (row + 1) * side / cells;
        const int64_t left = column * side / cells, right = (column + 1) * side / cells;
        double sum = 0;
        for (int64_t y = top; y < bottom; ++y)
          for (int64_t i = left * images.channels; i < right * images.channels; ++i)
            sum +=
                images.pixels[static_cast<size_t>((image * side + y) * side * images.channels + i)];
        const auto values = static_cast<double>((bottom - top) * (right - left) * images.channels);
        means.push_back(static_cast<float>(sum / values / 255));
      }
  return means;
}

ImageJudge::ImageJudge(const RunConfig& config)
    : options_(judged_options(config)), task_(make_saved_task(options_)) {
  require(task_->shape().side > 0, "the task {} has no images", options_.name);
  training_ = read_split(*task_, Split::train);
  test_ = read_split(*task_, Split::test);
}

Classifier ImageJudge::find_classifier(const fs::path& cache, ProgressReporter& progress) const {
  const TaskShape& shape = task_->shape();
  Classifier classifier(shape.side, shape.channels, shape.classes);
  const std::string key = classifier_key(*task_, options_);
  const fs::path path = cache / fmt::format("judge-{}.safetensors", key.substr(0, 16));
  if (!cache.empty() && load(path, key, classifier.parameters())) return classifier;
  classifier.train(*task_, show_time_left(progress, "steps of the classifier"));
  if (!cache.empty()) save(path, key, classifier.parameters(), progress);
  return classifier;
}

ImageReport ImageJudge::judge(const ImageSet& samples, bool asked, const fs::path& cache,
                              ProgressReporter& progress) const {
  const int64_t classes = task_->shape().classes, in_turn = asked ? classes : 0;
  const ImageSet training = comparable(training_, samples.count(), in_turn);
  const std::vector<double> weights = class_weights(test_, in_turn);
  ImageReport report;
  report.test_images = test_.count();
  if (classes > 0) {
    const Classifier classifier = find_classifier(cache, progress);
    const auto of_samples = classifier.predict(samples), of_tests = classifier.predict(test_);
    const Judgment sampled =
        judge_classes(of_samples.probabilities, samples.labels, class_weights(samples, 0), classes);
    const Judgment real = judge_classes(of_tests.probabilities, test_.labels, weights, classes);
    report.by_class = {classes,
                       classifier.hash(),
                       real.right,
                       {sampled.sure, real.sure},
                       {sampled.effective, real.effective},
                       asked ? std::optional(sampled.right) : std::nullopt,
                       sampled.shown};
    report.frechet = frechet_distances(of_samples.units, classifier.predict(training).units,
                                       of_tests.units, weights, kUnits);
  } else {
    const int64_t cells = std::min(samples.side, kCells);
    report.frechet = frechet_distances(cell_means(samples), cell_means(training), cell_means(test_),
                                       weights, cells * cells);
  }
  const bool flipped = complete_settings(options_).flag("flip");
  report.of_samples = nearest_training_images(samples, training_, flipped, progress);
  report.of_tests = nearest_training_images(comparable(test_, samples.count(), in_turn), training_,
                                            flipped, progress);
  return report;
}

}  // namespace linea
