#include "nn/optimizer.h"

#include <algorithm>
#include <cmath>

#include "nn/over_ranks.h"
#include "tensor/memory_report.h"
#include "tensor/ops.h"

namespace linea {

const std::vector<Mechanism>& optimizers() {
  using namespace declare;
  const Declarations betas = {
      real("beta1", 0.9, {0, kBelowOne}, "decay of the mean of the gradient"),
      real("beta2", 0.99, {0, kBelowOne}, "decay of the mean of the squared gradient")};
  Declarations decoupled = betas;
  decoupled.push_back(
      real("weight_decay", 0, at_least(0), "decoupled weight decay, of matrices only"));
  Declarations muon = decoupled;
  muon.push_back(positive("muon_lr", 0.02, "peak learning rate of the matrices of blocks"));
  muon.push_back(real("muon_momentum", 0.95, {0, kBelowOne}, "decay of the momentum of matrices"));
  static const std::vector<Mechanism> list = {
      {"adamw", decoupled}, {"adam", betas}, {"radam", decoupled}, {"muon", muon}};
  return list;
}

bool trains_as_matrices(const OptimizerConfig& config, const Parameter& parameter) {
  return config.name == "muon" && parameter.matrices > 0;
}

Optimizer::Optimizer(const OptimizerConfig& config, const Parameters& parameters)
    : config_(config), parameters_(parameters) {
  const Settings settings = complete(find_named("optimizer", optimizers(), config.name).settings,
                                     config.settings, "optimizer " + config.name);
  beta1_ = settings.real("beta1");
  beta2_ = settings.real("beta2");
  weight_decay_ = settings.has("weight_decay") ? settings.real("weight_decay") : 0.0;
  require(config.clip >= 0, "`clip` is {}; it must be at least 0", config.clip);
  if (config.name == "muon") {
    require(config.peak > 0, "the peak learning rate is {}; it must be above 0", config.peak);
    muon_momentum_ = settings.real("muon_momentum");
    muon_rate_ = settings.real("muon_lr") / config.peak;
  }
  const MemoryScope scope(MemoryPart::optimizer);
  for (const Parameter& parameter : parameters_) {
    const auto zeros = [&] { return Tensor::zeros(parameter.var.shape(), parameter.var.dtype()); };
    mean_.push_back(zeros());
    square_.push_back(trains_as_matrices(config_, parameter) ? Tensor() : zeros());
  }
}

bool Optimizer::step(double learning_rate, const UpdateLimits& limits, const Tensor& loss) {
  begin(learning_rate, limits);
  apply(loss);
  return end();
}

// c1 = 1 / (1 - b1^t), c2 = 1 / (1 - b2^t); RAdam, with rho_inf = 2 / (1 - b2) - 1 and
// rho = rho_inf - 2 t b2^t / (1 - b2^t), where rho > 4:
// r = sqrt((rho-4)(rho-2) rho_inf / ((rho_inf-4)(rho_inf-2) rho))          (Liu 2020, algorithm 2)
void Optimizer::begin(double learning_rate, const UpdateLimits& limits) {
  StepParams& step = *context().step;
  const double t = static_cast<double>(++updates_), power2 = std::pow(beta2_, t);
  step.correction1 = 1.0 / (1.0 - std::pow(beta1_, t));
  step.correction2 = 1.0 / (1.0 - power2);
  step.rectification = 1.0;
  if (config_.name == "radam") {
    const double limit = 2.0 / (1.0 - beta2_) - 1.0;
    const double rho = limit - 2.0 * t * power2 / (1.0 - power2);
    const double square = (rho - 4) * (rho - 2) * limit / ((limit - 4) * (limit - 2) * rho);
    step.rectification = rho > 4 ? std::sqrt(square) : -1.0;
  }
  step.learning_rate = learning_rate;
  step.loss_limit = limits.loss;
  step.norm_limit = limits.norm;
  send_step(context());
}

void Optimizer::apply(const Tensor& loss) {
  Context& ctx = context();
  const Tensor total = Tensor::zeros({1}, DType::f64);
  with_real(parameters_.at(0).var.dtype(), "optimizer", [&](auto zero) {
    using T = decltype(zero);
    std::vector<TrainedParameter<T>> all, adam;
    for (size_t i = 0; i < parameters_.size(); ++i) {
      const Var& var = parameters_[i].var;
      require(var.grad().defined(), "the parameter {} got no gradient", parameters_[i].name);
      all.push_back({var.grad().data<T>(), var.value().data<T>(), mean_[i].data<Accumulator<T>>(),
                     square_[i].data_or_null<Accumulator<T>>(), var.value().numel(),
                     var.shape().rank() >= 2 ? weight_decay_ : 0.0});
      if (square_[i].defined()) adam.push_back(all.back());
    }
    const Kernels<T>& of = kernels<T>(ctx.device);
    of.sum_squares(ctx, all.data(), all.size(), total.data<double>());
    of.clip_scale(ctx, total.data<double>(), loss.defined() ? loss.data<Accumulator<T>>() : nullptr,
                  config_.clip);
    of.adam(ctx, {beta1_, beta2_, config_.epsilon}, adam.data(), adam.size());
    if (adam.size() < all.size()) apply_muon<T>(ctx);
  });
}

// The matrices by falling size, so that threads, or processes, that take one after another finish
// together.
template <typename T>
void Optimizer::apply_muon(Context& ctx) const {
  std::vector<MuonMatrix<T>> matrices;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (square_[i].defined()) continue;
    const Var& var = parameters_[i].var;
    const int64_t count = parameters_[i].matrices, rows = var.size(0) / count, cols = var.size(1);
    for (int64_t matrix = 0; matrix < count; ++matrix) {
      const int64_t first = matrix * rows * cols;
      matrices.push_back({var.grad().data<T>() + first, var.value().data<T>() + first,
                          mean_[i].data<Accumulator<T>>() + first, rows, cols});
    }
  }
  std::stable_sort(matrices.begin(), matrices.end(),
                   [](const auto& a, const auto& b) { return a.rows * a.cols > b.rows * b.cols; });
  const SharedWork* const work = shared_work();
  std::vector<MuonMatrix<T>> own;
  std::vector<OwnedBytes> results;
  for (size_t i = 0; i < matrices.size(); ++i) {
    const MuonMatrix<T>& matrix = matrices[i];
    const int owner = work == nullptr ? 0 : static_cast<int>(i % static_cast<size_t>(work->size));
    if (work == nullptr || owner == work->rank) own.push_back(matrix);
    const auto count = static_cast<size_t>(matrix.rows * matrix.cols);
    results.push_back({matrix.parameter, count * sizeof(T), owner});
    results.push_back({matrix.momentum, count * sizeof(Accumulator<T>), owner});
  }
  kernels<T>(ctx.device)
      .muon(ctx, {muon_momentum_, muon_rate_, weight_decay_}, own.data(), own.size());
  if (work != nullptr) work->copy_from_owners(results);
}

bool Optimizer::end() {
  fetch_step(context());
  const bool updated = !std::isnan(context().step->clip_scale);
  if (!updated) --updates_;
  if (updated) clear_gradients();
  return updated;
}

void Optimizer::cancel() {
  --updates_;
  clear_gradients();
}

void Optimizer::clear_gradients() {
  for (Parameter& parameter : parameters_) parameter.var.clear_grad();
}

double Optimizer::gradient_norm() const { return context().step->gradient_norm; }
double Optimizer::loss() const { return context().step->loss; }

std::vector<Optimizer::Moment> Optimizer::moments() const {
  std::vector<Moment> result;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const std::string& name = parameters_[i].name;
    result.push_back({(square_[i].defined() ? "mean." : "momentum.") + name, mean_[i]});
    if (square_[i].defined()) result.push_back({"square." + name, square_[i]});
  }
  return result;
}

void Optimizer::restore(const std::vector<Moment>& moments, int64_t updates) {
  for (const Moment& own : this->moments()) {
    const auto found = std::find_if(moments.begin(), moments.end(),
                                    [&](const Moment& other) { return other.name == own.name; });
    if (found == moments.end())
      fail(ErrorKind::input, "the state has no tensor {}: it was saved by another `optimizer`",
           own.name);
    if (found->tensor.shape() != own.tensor.shape() || found->tensor.dtype() != own.tensor.dtype())
      fail(ErrorKind::input, "the optimizer's tensor {} is {} {}, expected {} {}", own.name,
           name_of(found->tensor.dtype()), found->tensor.shape().str(), name_of(own.tensor.dtype()),
           own.tensor.shape().str());
    ops::copy_into(found->tensor, own.tensor);
  }
  updates_ = updates;
}

double learning_rate_at(int64_t step, int64_t steps, int64_t warmup, double peak, double min) {
  if (step < warmup) return peak * static_cast<double>(step + 1) / static_cast<double>(warmup + 1);
  if (step >= steps) return min;
  const double progress = static_cast<double>(step - warmup) /
                          static_cast<double>(std::max<int64_t>(1, steps - warmup));
  return min + 0.5 * (peak - min) * (1.0 + std::cos(3.141592653589793 * progress));
}

}  // namespace linea
