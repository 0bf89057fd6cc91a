#include "train/evaluate.h"

#include <algorithm>
#include <cmath>

#include "tensor/ops.h"

namespace linea {
namespace {

constexpr int64_t kTokensAtOnce = 16384;

}  // namespace

Var forward_batch(const Transformer& model, const Task& task, const Batch& batch, bool training, Var* auxiliary) {
  const Shape shape{batch.rows, batch.length};
  const Tensor ids = symbols_tensor(batch.inputs, shape, task.input_vocabulary());
  const Tensor partners = batch.partners.empty()
                              ? Tensor()
                              : symbols_tensor(batch.partners, shape, task.shape().pair_vocabulary);
  return model.forward(ids, training, partners, auxiliary);
}

double bits_of(double nats) { return nats / std::log(2.0); }

Score evaluate(const Transformer& model, const Task& task, Split split, int64_t max_rows,
               const std::function<void(int64_t, int64_t)>& progress) {
  const NoGrad no_grad;
  const int64_t all = task.rows(split), rows = max_rows > 0 ? std::min(max_rows, all) : all;
  const int64_t at_once = std::max<int64_t>(1, kTokensAtOnce / task.length());
  Score score;
  double loss = 0;
  int64_t right = 0;
  for (int64_t first = 0; first < rows; first += at_once) {
    const Batch batch = task.eval_batch(split, first, std::min(at_once, rows - first));
    const Shape shape{batch.rows, batch.length};
    const Tensor outputs = forward_batch(model, task, batch, false).value();
    const std::vector<float> losses =
        model.head().losses(outputs, Tensor::from(batch.targets, shape)).to_vector<float>();
    const std::vector<int32_t> likeliest = ops::argmax(model.head().scores(outputs)).to_vector<int32_t>();
    for (size_t i = 0; i < losses.size(); ++i) {
      if (batch.targets[i] == kNotScored) continue;
      loss += losses[i];
      right += likeliest[i] == batch.targets[i] ? 1 : 0;
      ++score.tokens;
    }
    if (progress) progress(std::min(first + at_once, rows), rows);
  }
  if (score.tokens == 0) fail(ErrorKind::input, "the {} split has no scored symbol", split_name(split));
  score.loss = loss / static_cast<double>(score.tokens);
  score.bits = bits_of(score.loss);
  score.accuracy = static_cast<double>(right) / static_cast<double>(score.tokens);
  return score;
}

}  // namespace linea
