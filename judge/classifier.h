// A small convolutional network that tells the classes of images apart: two 3 x 3 convolutions with
// stride 2 and 16 and 32 channels, a layer of 64 units, all with ReLU, and the scores of the
// classes.
#pragma once

#include <string>
#include <vector>

#include "data/image_set.h"
#include "data/tasks/task.h"
#include "judge/neighbors.h"
#include "nn/linear.h"

namespace linea {

constexpr int64_t kUnits = 64;         // features of an image
constexpr int64_t kMinJudgedSide = 7;  // of an image, for two convolutions

// x [B,side,side,C], a kernel [outputs, 3 * 3 * C] -> [B,s,s,outputs], s = (side - 1) / 2: only
// positions where the kernel is inside of the image.
Var convolve(const Var& x, const Linear& kernel);

class Classifier {
 public:
  // Error: ErrorKind::usage, images of less than kMinJudgedSide.
  Classifier(int64_t side, int64_t channels, int64_t classes);

  // On batches of the task's training split, whose shape has classes.
  void train(const Task& task, const WorkProgress& progress);

  struct Predictions {
    std::vector<float> units;          // [count,kUnits], the activations of the last layer
    std::vector<float> probabilities;  // [count,classes]
  };
  Predictions predict(const ImageSet& images) const;

  const Parameters& parameters() const { return parameters_; }
  // SHA-256 of all weights.
  std::string hash() const;

 private:
  Var units(const Tensor& pixels) const;

  int64_t side_, channels_;
  Parameters parameters_;
  Linear first_, second_, dense_, scores_;
};

// The settings of the training, for a hash of all that the weights depend on.
std::string classifier_settings();

// The images of a batch, and their classes where the task's shape has classes (else 0).
ImageSet images_of(const TaskShape& shape, const Batch& batch);

}  // namespace linea
