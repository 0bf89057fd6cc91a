// How good sampled images are, compared with the test images and the training images of a run.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "judge/classifier.h"
#include "judge/neighbors.h"
#include "train/record/progress.h"
#include "train/run/checkpoint.h"

namespace linea {

// One measure, of samples and of real images.
struct Measure {
  double samples = 0, real = 0;
};

// By a classifier that was trained on the training images alone (judge/classifier.h).
struct ClassReport {
  int64_t classes = 0;
  std::string hash;             // of the classifier's weights
  double accuracy = 0;          // of the classifier, on the test images
  Measure sure;                 // share of images whose largest probability is above kSure
  Measure effective;            // number of classes: exp(entropy of the mean prediction)
  std::optional<double> right;  // share of samples that show the class that was asked for
  std::vector<uint8_t> shown;   // the most likely class of each sample
};
constexpr double kSure = 0.9;

struct ImageReport {
  std::optional<ClassReport> by_class;  // nothing where the images have no classes
  // Fréchet distance to the test images, of the samples and of as many training images. Features
  // are the units of the classifier, or where there is none, means of 8 x 8 cells. Where the
  // samples have the classes in turn, so have the training images and those of `of_tests`, and
  // all test images of a class together count as much as those of another.
  Measure frechet;
  // The nearest training image of each sample, and of as many test images.
  std::vector<Neighbor> of_samples, of_tests;
  int64_t test_images = 0;
};

// The distances to the nearest training images.
struct Nearness {
  Measure median, min;
  int64_t copies = 0;  // samples that are nearer to one than any of these test images
};
Nearness nearness_of(const ImageReport& report);

// Images that samples are compared with: those of the run's task, with their classes where it has
// some. A run that was trained without class tokens is judged by classes all the same, but for
// folders of images, whose sub-folders need not be classes.
class ImageJudge {
 public:
  // Errors: those of reading the run's data.
  explicit ImageJudge(const RunConfig& config);

  // The classifier is read from `cache`, or trained and written there; a folder that cannot be
  // written is noted. `asked`: labels of the samples are the classes that the model was asked for.
  ImageReport judge(const ImageSet& samples, bool asked, const std::filesystem::path& cache,
                    ProgressReporter& progress) const;

  const ImageSet& training_images() const { return training_; }

 private:
  Classifier find_classifier(const std::filesystem::path& cache, ProgressReporter& progress) const;

  TaskOptions options_;
  std::unique_ptr<Task> task_;
  ImageSet training_, test_;
};

// The folder of what can be computed again: $XDG_CACHE_HOME/linea, or ~/.cache/linea; empty where
// neither variable is set.
std::filesystem::path cache_folder();

// 8 x 8 means of the gray levels of an image, in [0, 1]; of smaller images each pixel.
std::vector<float> cell_means(const ImageSet& images);

}  // namespace linea
