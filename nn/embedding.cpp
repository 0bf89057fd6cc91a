#include "nn/embedding.h"

#include <cmath>

#include "autograd/ops.h"
#include "autograd/sequence_part.h"
#include "nn/model.h"
#include "tensor/ops.h"

namespace linea {
namespace {

Tensor sinusoidal_table(int64_t length, int64_t dim) {
  std::vector<float> values(static_cast<size_t>(length * dim));
  for (int64_t n = 0; n < length; ++n)
    for (int64_t d = 0; d < dim; ++d) {
      const double frequency =
          std::pow(10000.0, -static_cast<double>(d / 2 * 2) / static_cast<double>(dim));
      const double angle = static_cast<double>(n) * frequency;
      values[static_cast<size_t>(n * dim + d)] =
          static_cast<float>(d % 2 == 0 ? std::sin(angle) : std::cos(angle));
    }
  return Tensor::from(values, {length, dim});
}

}  // namespace

bool has_position_table(const std::string& kind) { return kind != "rotary" && kind != "none"; }

Var Embedding::forward(const Tensor& ids) const { return embedding(weight, ids); }

PositionEmbedding::PositionEmbedding(ParameterInit& init, const ModelConfig& config) {
  const int64_t length = config.length, dim = config.dim;
  if (!has_position_table(config.positions)) return;
  weight = config.positions == "sinusoidal"
               ? Var(sinusoidal_table(length, dim))
               : init.normal("position_embedding.weight", {length, dim}, kInitStd);
  if (config.positions != "learned+grid") return;
  const int64_t W = config.image_width, C = config.image_channels;
  // Position n is that of channel n % C in column n / C % W of row n / (C W).
  const auto add = [&](const char* name, int64_t each, int64_t count) {
    std::vector<int32_t> index;
    for (int64_t n = 0; n < length; ++n) index.push_back(static_cast<int32_t>(n / each % count));
    axes.push_back(
        {Embedding(init, name, count, dim, kInitStd, true), Tensor::from(index, {length})});
  };
  add("row_embedding", C * W, (length + C * W - 1) / (C * W));
  add("column_embedding", C, W);
  if (C > 1) add("channel_embedding", 1, C);
}

Var PositionEmbedding::table(int64_t N, int64_t first) const {
  if (!weight.defined()) return {};
  Var sum = rows(weight, first, N);
  for (const Axis& axis : axes) sum = add(sum, axis.embedding.forward(axis.index.rows(first, N)));
  return sum;
}

Var PositionEmbedding::forward(const Var& x, int64_t first) const {
  return weight.defined() ? add_rows(x, table(x.size(1), first)) : x;
}

ClassEmbedding::ClassEmbedding(ParameterInit& init, const ModelConfig& config)
    : first(config.vocab_size) {
  if (config.class_embedding != "every") return;
  weight = init.constant("class_embedding.weight", {config.classes + 1, config.dim}, 0, true);
}

Var ClassEmbedding::forward(const Var& x, const Tensor& ids) const {
  if (!weight.defined()) return x;
  const SequencePart* const part = sequence_part();
  const Tensor& tokens = part == nullptr || part->is_first() ? ids : part->first_tokens;
  return add(x, embedding(weight, ops::class_index(tokens, first, weight.size(0) - 1)));
}

Tensor ClassEmbedding::step(const Tensor& x, const Tensor& ids, const Tensor& position,
                            const Tensor& index) const {
  if (!weight.defined()) return x;
  ops::update_class_index(ids, position, first, weight.size(0) - 1, index);
  return ops::add(x, ops::embedding(weight.value(), index));
}

}  // namespace linea
