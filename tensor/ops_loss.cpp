// Loss ops of tensor/ops.h.
#include "tensor/launch.h"
#include "tensor/ops.h"

namespace linea::ops {

void require_mixtures(const char* op, const Tensor& mixtures, int64_t levels) {
  require(columns(mixtures) == 3 * kLogistics && levels >= 2,
          "{}: {} is no mixture of {} logistics on {} levels", op, mixtures.shape(), kLogistics,
          levels);
}

CrossEntropy cross_entropy(const Tensor& logits, const Tensor& targets) {
  require_ids("cross_entropy", targets, INT32_MIN, columns(logits));
  require(targets.numel() == num_rows(logits), "cross_entropy: logits {} and targets {}",
          logits.shape(), targets.shape());
  const DType dtype = logits.dtype();
  const DType sums = sum_dtype(dtype);
  CrossEntropy result{Tensor({1}, sums), Tensor({num_rows(logits)}, sums),
                      Tensor({num_rows(logits)}, sums), Tensor({1}, sums)};
  launch(dtype, "cross_entropy", [&](const auto& table) {
    table.cross_entropy(context(), data(logits), data(targets), data(result.losses),
                        data(result.log_sums), num_rows(logits), columns(logits));
    table.mean_scored(context(), data(result.losses), data(targets), data(result.mean),
                      data(result.scored), num_rows(logits));
  });
  return result;
}

Tensor cross_entropy_backward(const Tensor& logits, const Tensor& targets,
                              const CrossEntropy& saved, const Tensor& dmean) {
  Tensor dlogits(logits.shape(), logits.dtype());
  launch(logits.dtype(), "cross_entropy_backward", [&](const auto& table) {
    table.cross_entropy_backward(context(), data(logits), data(targets), data(saved.log_sums),
                                 data(saved.scored), data(dmean), data(dlogits), num_rows(logits),
                                 columns(logits));
  });
  return dlogits;
}

LogisticsLoss logistics_loss(const Tensor& mixtures, const Tensor& targets, int64_t levels) {
  require_mixtures("logistics_loss", mixtures, levels);
  require_ids("logistics_loss", targets, INT32_MIN, levels);
  require(targets.numel() == num_rows(mixtures), "logistics_loss: mixtures {} and targets {}",
          mixtures.shape(), targets.shape());
  const DType dtype = mixtures.dtype();
  const DType sums = sum_dtype(dtype);
  LogisticsLoss result{Tensor({1}, sums), Tensor({num_rows(mixtures)}, sums), Tensor({1}, sums)};
  launch(dtype, "logistics_loss", [&](const auto& table) {
    table.logistics_loss(context(), data(mixtures), data(targets), data(result.losses),
                         num_rows(mixtures), levels);
    table.mean_scored(context(), data(result.losses), data(targets), data(result.mean),
                      data(result.scored), num_rows(mixtures));
  });
  return result;
}

Tensor logistics_loss_backward(const Tensor& mixtures, const Tensor& targets, int64_t levels,
                               const LogisticsLoss& saved, const Tensor& dmean) {
  Tensor dmixtures(mixtures.shape(), mixtures.dtype());
  launch(mixtures.dtype(), "logistics_loss_backward", [&](const auto& table) {
    table.logistics_loss_backward(context(), data(mixtures), data(targets), data(saved.losses),
                                  data(saved.scored), data(dmean), data(dmixtures),
                                  num_rows(mixtures), levels);
  });
  return dmixtures;
}

Tensor logistics_scores(const Tensor& mixtures, int64_t levels) {
  require_mixtures("logistics_scores", mixtures, levels);
  Tensor scores(mixtures.shape().with(-1, levels), mixtures.dtype());
  launch(mixtures.dtype(), "logistics_scores", [&](const auto& table) {
    table.logistics_scores(context(), data(mixtures), data(scores), num_rows(mixtures), levels);
  });
  return scores;
}

}  // namespace linea::ops
