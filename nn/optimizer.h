// Adam, AdamW, RAdam and Muon with clipping by the global norm, over all parameters of a model.
#pragma once

#include <string>
#include <vector>

#include "base/settings.h"
#include "nn/parameter.h"
#include "tensor/kernels.h"

namespace linea {

struct OptimizerConfig {
  std::string name = "adamw";  // one of optimizers()
  Settings settings{};         // its own; what is missing has its default
  double clip = 1.0;           // of the gradients' global norm; 0: none
  double epsilon = 1e-8;
  double peak = 1e-3;  // the largest learning rate, at which Muon's own is `muon_lr`
};

// Whether the optimizer trains this parameter as matrices with one moment, by Muon; others have two
// moments.
bool trains_as_matrices(const OptimizerConfig& config, const Parameter& parameter);

// The optimizers and their settings.
const std::vector<Mechanism>& optimizers();

// An update is skipped above these; 0: where the number is not finite.
struct UpdateLimits {
  double loss = 0, norm = 0;
};

class Optimizer {
 public:
  // Errors: an unknown name, those of `complete`, a negative clip.
  Optimizer(const OptimizerConfig& config, const Parameters& parameters);

  // One update at this learning rate from the gradients that the parameters hold, which are
  // cleared. Where their norm or the step's loss, one number where it is given, is not finite or
  // beyond its limit, nothing changes, the gradients stay and the result is false. Error: a
  // parameter without a gradient, by name.
  bool step(double learning_rate, const UpdateLimits& limits = {}, const Tensor& loss = {});

  // step() split for graph capture: `begin` uploads scalars, `apply` launches identical work each
  // time, `end` waits and reports.
  void begin(double learning_rate, const UpdateLimits& limits = {});
  void apply(const Tensor& loss = {});
  bool end();
  // Instead of the latter two: no update, and no gradients.
  void cancel();

  void clear_gradients();
  // The last step's norm before clipping, and the loss that it was given.
  double gradient_norm() const;
  double loss() const;

  // The state that resuming needs: "mean.NAME" and "square.NAME" tensors, or "momentum.NAME" of
  // matrices that Muon trains, and the count of updates.
  using Moment = NamedTensor;
  std::vector<Moment> moments() const;
  int64_t updates() const { return updates_; }
  // Error: a moment that is missing or of another shape, by name.
  void restore(const std::vector<Moment>& moments, int64_t updates);

 private:
  template <typename T>
  void apply_muon(Context& ctx) const;

  OptimizerConfig config_;
  double beta1_, beta2_, weight_decay_, muon_momentum_ = 0, muon_rate_ = 0;
  Parameters parameters_;
  std::vector<Tensor> mean_, square_;  // of matrices that Muon trains the momentum alone
  int64_t updates_ = 0;
};

// Linear warm-up to `peak` over `warmup` steps, then a cosine down to `min` at step `steps`.
double learning_rate_at(int64_t step, int64_t steps, int64_t warmup, double peak, double min);

}  // namespace linea
