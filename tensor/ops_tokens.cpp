// Ops of tensor/ops.h on tokens: embeddings, losses and sampling.
#include "tensor/launch.h"
#include "tensor/ops.h"

namespace linea::ops {
namespace {

// Error: ids that are not i32 in min .. vocab_size - 1; their values are checked where that does
// not wait for a device.
void require_ids(const char* op, const Tensor& ids, int64_t min, int64_t vocab_size) {
  require(ids.dtype() == DType::i32, "{}: tokens are i32, not {}", op, name_of(ids.dtype()));
  if (ids.device().kind != DeviceKind::cpu) return;
  const int32_t* id = ids.data<int32_t>();
  for (int64_t i = 0; i < ids.numel(); ++i)
    require(id[i] >= min && id[i] < vocab_size, "{}: the token {} at index {} is not one of 0..{}",
            op, id[i], i, vocab_size - 1);
}

// Error: not rows of mixtures of kLogistics distributions.
void require_mixtures(const char* op, const Tensor& mixtures, int64_t levels) {
  require(columns(mixtures) == 3 * kLogistics && levels >= 2,
          "{}: {} is no mixture of {} logistics on {} levels", op, mixtures.shape(), kLogistics,
          levels);
}

// The tensors of a loss. Errors: targets above V - 1, or not one for each row of outputs.
ScoredLoss new_loss(const char* op, const Tensor& outputs, const Tensor& targets, int64_t V) {
  require_ids(op, targets, INT32_MIN, V);
  require(targets.numel() == num_rows(outputs), "{}: outputs {} and targets {}", op,
          outputs.shape(), targets.shape());
  const DType sums = sum_dtype(outputs.dtype());
  return {Tensor({1}, sums), Tensor({num_rows(outputs)}, sums), Tensor({1}, sums)};
}

}  // namespace

Tensor embedding(const Tensor& table, const Tensor& ids) {
  require_ids("embedding", ids, 0, table.size(0));
  std::vector<int64_t> sizes = ids.shape().sizes();
  sizes.push_back(columns(table));
  Tensor y(Shape(sizes), table.dtype());
  LINEA_LAUNCH(embedding, table.dtype(), table, ids, y, ids.numel(), columns(table));
  return y;
}

Tensor embed_position(const Tensor& table, const Tensor& ids, const Tensor& position_table,
                      const Tensor& positions, DType dtype) {
  require_ids("embed_position", ids, 0, table.size(0));
  require_ids("embed_position", positions, 0, position_table.size(0));
  require(columns(position_table) == columns(table) && positions.numel() == ids.numel(),
          "embed_position: tokens {}, positions {}, ids {} and position ids {} do not match",
          table.shape(), position_table.shape(), ids.shape(), positions.shape());
  Tensor y({ids.numel(), columns(table)}, dtype);
  LINEA_LAUNCH(embed_position, dtype, table, ids, position_table, positions, y, ids.numel(),
               columns(table));
  return y;
}

Tensor embedding_backward(const Tensor& ids, const Tensor& dy, int64_t vocab_size) {
  require_ids("embedding_backward", ids, 0, vocab_size);
  Tensor dtable({vocab_size, columns(dy)}, dy.dtype());
  LINEA_LAUNCH(embedding_backward, dy.dtype(), ids, dy, dtable, ids.numel(), vocab_size,
               columns(dy));
  return dtable;
}

Tensor class_index(const Tensor& ids, int64_t first, int64_t classes) {
  Tensor index(ids.shape(), DType::i32);
  LINEA_LAUNCH(class_index, DType::f32, ids, nullptr, index, ids.size(0), ids.size(1), first,
               classes);
  return index;
}

void update_class_index(const Tensor& ids, const Tensor& positions, int64_t first, int64_t classes,
                        const Tensor& index) {
  require_shape("update_class_index", "positions", positions, ids.shape());
  require_shape("update_class_index", "index", index, ids.shape());
  LINEA_LAUNCH(class_index, DType::f32, ids, positions, index, ids.numel(), 1, first, classes);
}

ScoredLoss cross_entropy(const Tensor& logits, const Tensor& targets) {
  ScoredLoss result = new_loss("cross_entropy", logits, targets, columns(logits));
  result.log_sums = Tensor(result.losses.shape(), result.losses.dtype());
  LINEA_LAUNCH(cross_entropy, logits.dtype(), logits, targets, result.losses, result.log_sums,
               num_rows(logits), columns(logits));
  LINEA_LAUNCH(mean_scored, logits.dtype(), result.losses, targets, result.mean, result.scored,
               num_rows(logits));
  return result;
}

Tensor cross_entropy_backward(const Tensor& logits, const Tensor& targets, const ScoredLoss& saved,
                              const Tensor& dmean) {
  Tensor dlogits(logits.shape(), logits.dtype());
  LINEA_LAUNCH(cross_entropy_backward, logits.dtype(), logits, targets, saved.log_sums,
               saved.scored, dmean, dlogits, num_rows(logits), columns(logits));
  return dlogits;
}

ScoredLoss logistics_loss(const Tensor& mixtures, const Tensor& targets, int64_t levels) {
  require_mixtures("logistics_loss", mixtures, levels);
  const ScoredLoss result = new_loss("logistics_loss", mixtures, targets, levels);
  LINEA_LAUNCH(logistics_loss, mixtures.dtype(), mixtures, targets, result.losses,
               num_rows(mixtures), levels);
  LINEA_LAUNCH(mean_scored, mixtures.dtype(), result.losses, targets, result.mean, result.scored,
               num_rows(mixtures));
  return result;
}

Tensor logistics_loss_backward(const Tensor& mixtures, const Tensor& targets, int64_t levels,
                               const ScoredLoss& saved, const Tensor& dmean) {
  Tensor dmixtures(mixtures.shape(), mixtures.dtype());
  LINEA_LAUNCH(logistics_loss_backward, mixtures.dtype(), mixtures, targets, saved.losses,
               saved.scored, dmean, dmixtures, num_rows(mixtures), levels);
  return dmixtures;
}

Tensor logistics_scores(const Tensor& mixtures, int64_t levels) {
  require_mixtures("logistics_scores", mixtures, levels);
  Tensor scores(mixtures.shape().with(-1, levels), mixtures.dtype());
  LINEA_LAUNCH(logistics_scores, mixtures.dtype(), mixtures, scores, num_rows(mixtures), levels);
  return scores;
}

Tensor argmax(const Tensor& x) {
  Tensor index({num_rows(x)}, DType::i32);
  LINEA_LAUNCH(argmax, x.dtype(), x, index, num_rows(x), columns(x));
  return index;
}

void check_sampling_params(const SamplingParams& params) {
  require(params.temperature > 0, "`temperature` is {}; it must be above 0 (or say `greedy`)",
          params.temperature);
  require(params.top_k >= 0, "`top_k` is {}; it must be at least 1, or 0 for all tokens",
          params.top_k);
  require(params.top_p > 0 && params.top_p <= 1, "`top_p` is {}; it must be above 0 and at most 1",
          params.top_p);
}

void sample(OutputKind kind, const Tensor& outputs, int64_t V, const SamplingParams& params,
            const RandomStream& stream, const Sampled& to) {
  if (!params.greedy) check_sampling_params(params);
  const int64_t rows = num_rows(outputs);
  if (kind == OutputKind::logistics) {
    require_mixtures("sample", outputs, V);
  } else {
    require(columns(outputs) == V, "sample: outputs {} are no logits of {} tokens", outputs.shape(),
            V);
  }
  for (const Tensor& x : {to.tokens, to.positions, to.count})
    require(!x.defined() || x.numel() == rows,
            "sample: outputs {} and {} of the sampled tokens do not match", outputs.shape(),
            x.shape());
  require(!to.token_buffer.defined() || columns(to.token_buffer) == rows,
          "sample: outputs {} and a token_buffer {} do not match", outputs.shape(),
          to.token_buffer.shape());
  const SampledTokens sampled{to.tokens.data<int32_t>(),
                              data_or_null(to.positions),
                              data_or_null(to.count),
                              data_or_null(to.token_buffer),
                              rows,
                              to.token_buffer.defined() ? to.token_buffer.size(0) : 0};
  LINEA_LAUNCH(sample, outputs.dtype(), kind, outputs, V, params, stream, sampled);
}

}  // namespace linea::ops
