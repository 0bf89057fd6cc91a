#include "autograd/ops.h"
#include "tensor/ops.h"

namespace linea {

// y_r = E[id_r];  dE[s] = sum over r with id_r = s of dy_r
Var embedding(const Var& table, const Tensor& ids) {
  return Var::from_op("embedding", ops::embedding(table.value(), ids), {table},
                      [ids, tokens = table.size(0)](const Tensor& dy) {
                        return ops::embedding_backward(ids, dy, tokens);
                      });
}

// L = mean over scored r of log sum_v exp(x_rv) - x_r,target;  dx = (softmax(x) - onehot) dL /
// scored
Var cross_entropy(const Var& logits, const Tensor& targets) {
  const ops::ScoredLoss saved = ops::cross_entropy(logits.value(), targets);
  return Var::from_op("cross_entropy", saved.mean, {logits},
                      [logits = logits.value(), targets, saved](const Tensor& dy) {
                        return ops::cross_entropy_backward(logits, targets, saved, dy);
                      });
}

// L = mean over scored r of -log sum_k share_rk P_rk(target);  its gradients: tensor/cpu/loss.cpp
Var logistics_loss(const Var& mixtures, const Tensor& targets, int64_t levels) {
  const ops::ScoredLoss saved = ops::logistics_loss(mixtures.value(), targets, levels);
  return Var::from_op("logistics_loss", saved.mean, {mixtures},
                      [mixtures = mixtures.value(), targets, levels, saved](const Tensor& dy) {
                        return ops::logistics_loss_backward(mixtures, targets, levels, saved, dy);
                      });
}

}  // namespace linea
