// --ema: an exponential average of a model's weights over its updates, as a model of its own.
#pragma once

#include <memory>

#include "nn/model.h"

namespace linea {

class WeightAverage {
 public:
  // Starts from the weights of `model`, which it refers to. Error: ErrorKind::usage, a decay
  // outside of [0, 1).
  WeightAverage(const Model& model, double decay);

  // After each update of the model.
  void update();
  // The average with the model's present buffers, which are not averaged.
  Model& model();

  // Weights that were averaged: with those of model(), what resuming needs.
  int64_t updates() const { return updates_; }
  void restore(int64_t updates) { updates_ = updates; }
  size_t bytes() const;
  // Takes the weights of the model as they are now.
  void restart();

 private:
  const Model& of_;
  double decay_;
  std::unique_ptr<Model> average_;
  int64_t updates_ = 0;
};

}  // namespace linea
