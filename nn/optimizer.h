// Adam, AdamW and RAdam with clipping by the global norm, over all parameters of a model.
#pragma once

#include <string>
#include <vector>

#include "nn/parameter.h"
#include "tensor/kernels.h"

namespace linea {

struct OptimizerConfig {
  std::string kind = "adamw";  // adamw, adam, radam
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
  double weight_decay = 0;  // decoupled, on matrices only; adam takes none
  double clip = 1.0;        // of the gradients' global norm; 0: none
};

// An update is skipped above these; 0: where the number is not finite.
struct UpdateLimits {
  double loss = 0, norm = 0;
};

class Optimizer {
 public:
  // Errors: an unknown kind, betas outside [0, 1), decay with adam, a negative clip or decay.
  Optimizer(const OptimizerConfig& config, const Parameters& parameters);

  // One update at this learning rate from the gradients that the parameters hold, which are
  // cleared. Where their norm or the step's loss, one number where it is given, is not finite or
  // beyond its limit, nothing changes, the gradients stay and the result is false. Error: a
  // parameter without a gradient, by name.
  bool step(double learning_rate, const UpdateLimits& limits = {}, const Tensor& loss = {});

  // The same in three parts: what the host tells the device of this update; what the device does,
  // always the same, so that it may be recorded; and what came of it, for which the host waits.
  void begin(double learning_rate, const UpdateLimits& limits = {});
  void apply(const Tensor& loss = {});
  bool end();

  void clear_gradients();
  // Of the last step: the norm before clipping, and the loss that it was given.
  double gradient_norm() const;
  double loss() const;

  // What resuming needs: "mean.NAME", "square.NAME" tensors and the count of updates.
  struct Moment {
    std::string name;
    Tensor tensor;
  };
  std::vector<Moment> moments() const;
  int64_t updates() const { return updates_; }
  // Error: a moment that is missing or of another shape, by name.
  void restore(const std::vector<Moment>& moments, int64_t updates);

 private:
  void set_corrections();
  template <typename T>
  std::vector<TrainedParameter<T>> trained() const;

  OptimizerConfig config_;
  Parameters parameters_;
  std::vector<Tensor> mean_, square_;
  int64_t updates_ = 0;
};

// Linear warm-up to `peak` over `warmup` steps, then a cosine down to `least` at step `steps`.
double learning_rate_at(int64_t step, int64_t steps, int64_t warmup, double peak, double min);

}  // namespace linea
