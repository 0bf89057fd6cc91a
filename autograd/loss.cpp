#include "autograd/ops.h"
#include "tensor/ops.h"

namespace linea {

// L = mean over scored r of log sum_v exp(x_rv) - x_r,target;  dx = (softmax(x) - onehot) dL /
// scored
Var cross_entropy(const Var& logits, const Tensor& targets) {
  const ops::CrossEntropy kept = ops::cross_entropy(logits.value(), targets);
  return Var::from_op(
      "cross_entropy", kept.mean, {logits},
      [logits = logits.value(), targets, kept](const Tensor& dy) -> std::vector<Gradient> {
        return {ops::cross_entropy_backward(logits, targets, kept, dy)};
      });
}

// L = mean over scored r of -log sum_k share_rk P_rk(target);  its gradients:
// tensor/cpu/logistics.cpp
Var logistics_loss(const Var& mixtures, const Tensor& targets, int64_t levels) {
  const ops::LogisticsLoss kept = ops::logistics_loss(mixtures.value(), targets, levels);
  return Var::from_op("logistics_loss", kept.mean, {mixtures},
                      [mixtures = mixtures.value(), targets, levels,
                       kept](const Tensor& dy) -> std::vector<Gradient> {
                        return {ops::logistics_loss_backward(mixtures, targets, levels, kept, dy)};
                      });
}

}  // namespace linea
