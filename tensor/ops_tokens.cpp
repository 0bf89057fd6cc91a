// Ops between tokens and numbers: embedding, cross-entropy, sampling.
#include "tensor/launch.h"
#include "tensor/ops.h"

namespace linea::ops {
namespace {

// Ids from `least` on, below `tokens`. Looked at only where that does not wait for a device.
void require_ids(const char* op, const Tensor& ids, int64_t min, int64_t tokens) {
  require(ids.dtype() == DType::i32, "{}: tokens are i32, not {}", op, name_of(ids.dtype()));
  if (ids.device().kind != DeviceKind::cpu) return;
  const int32_t* id = ids.data<int32_t>();
  for (int64_t i = 0; i < ids.numel(); ++i)
    require(id[i] >= min && id[i] < tokens, "{}: the token {} at place {} is not one of 0..{}", op,
            id[i], i, tokens - 1);
}

}  // namespace

Tensor embedding(const Tensor& table, const Tensor& ids) {
  require_ids("embedding", ids, 0, table.size(0));
  std::vector<int64_t> sizes = ids.shape().sizes();
  sizes.push_back(columns(table));
  Tensor y(Shape(sizes), table.dtype());
  launch(table.dtype(), "embedding", [&](const auto& backend, auto t) {
    using T = decltype(t);
    backend.embedding(context(), table.data<T>(), ids.data<int32_t>(), y.data<T>(), ids.numel(),
                      columns(table));
  });
  return y;
}

Tensor embed_position(const Tensor& table, const Tensor& ids, const Tensor& positions,
                      const Tensor& place, DType stored) {
  require_ids("embed_position", ids, 0, table.size(0));
  require_ids("embed_position", place, 0, positions.size(0));
  require(columns(positions) == columns(table) && place.numel() == ids.numel(),
          "embed_position: tokens {}, positions {}, ids {} and places {} do not match",
          table.shape(), positions.shape(), ids.shape(), place.shape());
  Tensor y({ids.numel(), columns(table)}, stored);
  launch(stored, "embed_position", [&](const auto& backend, auto t) {
    using T = decltype(t);
    using A = Accumulator<T>;
    backend.embed_position(context(), table.data<A>(), ids.data<int32_t>(), positions.data<A>(),
                           place.data<int32_t>(), y.data<T>(), ids.numel(), columns(table));
  });
  return y;
}

Tensor embedding_backward(const Tensor& ids, const Tensor& dy, int64_t tokens) {
  require_ids("embedding_backward", ids, 0, tokens);
  Tensor dtable({tokens, columns(dy)}, dy.dtype());
  launch(dy.dtype(), "embedding_backward", [&](const auto& backend, auto t) {
    using T = decltype(t);
    backend.embedding_backward(context(), ids.data<int32_t>(), dy.data<T>(), dtable.data<T>(),
                               ids.numel(), tokens, columns(dy));
  });
  return dtable;
}

CrossEntropy cross_entropy(const Tensor& logits, const Tensor& targets) {
  require_ids("cross_entropy", targets, INT32_MIN, columns(logits));
  require(targets.numel() == num_rows(logits), "cross_entropy: logits {} and targets {}",
          logits.shape(), targets.shape());
  const DType dtype = logits.dtype();
  const DType sums = sum_dtype(dtype);
  CrossEntropy result{Tensor({1}, sums), Tensor({num_rows(logits)}, sums),
                      Tensor({num_rows(logits)}, sums), Tensor({1}, sums)};
  launch(dtype, "cross_entropy", [&](const auto& table, auto t) {
    using T = decltype(t);
    using A = Accumulator<T>;
    A* losses = result.losses.template data<A>();
    table.cross_entropy(context(), logits.data<T>(), targets.data<int32_t>(), losses,
                        result.log_sums.template data<A>(), num_rows(logits), columns(logits));
    table.mean_scored(context(), losses, targets.data<int32_t>(), result.mean.template data<A>(),
                      result.scored.template data<A>(), num_rows(logits));
  });
  return result;
}

Tensor cross_entropy_backward(const Tensor& logits, const Tensor& targets, const CrossEntropy& kept,
                              const Tensor& dmean) {
  Tensor dlogits(logits.shape(), logits.dtype());
  launch(logits.dtype(), "cross_entropy_backward", [&](const auto& table, auto t) {
    using T = decltype(t);
    table.cross_entropy_backward(
        context(), logits.data<T>(), targets.data<int32_t>(),
        kept.log_sums.template data<Accumulator<T>>(), kept.scored.template data<Accumulator<T>>(),
        dmean.data<Accumulator<T>>(), dlogits.data<T>(), num_rows(logits), columns(logits));
  });
  return dlogits;
}

Tensor argmax(const Tensor& x) {
  Tensor index({num_rows(x)}, DType::i32);
  launch(x.dtype(), "argmax", [&](const auto& table, auto t) {
    using T = decltype(t);
    table.argmax(context(), x.data<T>(), index.data<int32_t>(), num_rows(x), columns(x));
  });
  return index;
}

namespace {

void require_mixtures(const char* op, const Tensor& mixtures, int64_t levels) {
  require(columns(mixtures) == 3 * kLogistics && levels >= 2,
          "{}: {} is no mixture of {} logistics on {} levels", op, mixtures.shape(), kLogistics,
          levels);
}

}  // namespace

void check_sampling_params(const SamplingParams& params) {
  require(params.temperature > 0, "--temperature is {}; it must be above 0 (or say --greedy)",
          params.temperature);
  require(params.top_k >= 0, "--top-k is {}; it must be at least 1, or 0 for all tokens",
          params.top_k);
  require(params.top_p > 0 && params.top_p <= 1, "--top-p is {}; it must be above 0 and at most 1",
          params.top_p);
}

void sample(OutputKind kind, const Tensor& outputs, int64_t V, const SamplingParams& params,
            const RandomStream& stream, const Sampled& to) {
  if (!params.greedy) check_sampling_params(params);
  const int64_t rows = num_rows(outputs);
  if (kind == OutputKind::logistics) {
    require_mixtures("draw", outputs, V);
  } else {
    require(columns(outputs) == V, "draw: outputs {} are no logits of {} tokens", outputs.shape(),
            V);
  }
  for (const Tensor& part : {to.tokens, to.place, to.count})
    require(!part.defined() || part.numel() == rows,
            "draw: outputs {} and {} of what was sampled do not match", outputs.shape(),
            part.shape());
  require(!to.token_buffer.defined() || columns(to.token_buffer) == rows,
          "draw: outputs {} and a token_buffer {} do not match", outputs.shape(),
          to.token_buffer.shape());
  const auto data = [](const Tensor& part) {
    return part.defined() ? part.data<int32_t>() : nullptr;
  };
  const SampledTokens kept{to.tokens.data<int32_t>(),
                           data(to.place),
                           data(to.count),
                           data(to.token_buffer),
                           rows,
                           to.token_buffer.defined() ? to.token_buffer.size(0) : 0};
  launch(outputs.dtype(), "draw", [&](const auto& table, auto t) {
    using T = decltype(t);
    table.sample(context(), kind, outputs.data<T>(), V, params, stream, kept);
  });
}

Tensor sample(const Tensor& logits, const SamplingParams& params, const RandomStream& stream) {
  const Sampled sampled{Tensor({num_rows(logits)}, DType::i32)};
  sample(OutputKind::logits, logits, columns(logits), params, stream, sampled);
  return sampled.tokens;
}

LogisticsLoss logistics_loss(const Tensor& mixtures, const Tensor& targets, int64_t levels) {
  require_mixtures("logistics_loss", mixtures, levels);
  require_ids("logistics_loss", targets, INT32_MIN, levels);
  require(targets.numel() == num_rows(mixtures), "logistics_loss: mixtures {} and targets {}",
          mixtures.shape(), targets.shape());
  const DType dtype = mixtures.dtype();
  const DType sums = sum_dtype(dtype);
  LogisticsLoss result{Tensor({1}, sums), Tensor({num_rows(mixtures)}, sums), Tensor({1}, sums)};
  launch(dtype, "logistics_loss", [&](const auto& table, auto t) {
    using T = decltype(t);
    using A = Accumulator<T>;
    A* losses = result.losses.template data<A>();
    table.logistics_loss(context(), mixtures.data<T>(), targets.data<int32_t>(), losses,
                         num_rows(mixtures), levels);
    table.mean_scored(context(), losses, targets.data<int32_t>(), result.mean.template data<A>(),
                      result.scored.template data<A>(), num_rows(mixtures));
  });
  return result;
}

Tensor logistics_loss_backward(const Tensor& mixtures, const Tensor& targets, int64_t levels,
                               const LogisticsLoss& kept, const Tensor& dmean) {
  Tensor dmixtures(mixtures.shape(), mixtures.dtype());
  launch(mixtures.dtype(), "logistics_loss_backward", [&](const auto& table, auto t) {
    using T = decltype(t);
    table.logistics_loss_backward(
        context(), mixtures.data<T>(), targets.data<int32_t>(),
        kept.losses.template data<Accumulator<T>>(), kept.scored.template data<Accumulator<T>>(),
        dmean.data<Accumulator<T>>(), dmixtures.data<T>(), num_rows(mixtures), levels);
  });
  return dmixtures;
}

Tensor logistics_scores(const Tensor& mixtures, int64_t levels) {
  require_mixtures("logistics_scores", mixtures, levels);
  Tensor scores(mixtures.shape().with(-1, levels), mixtures.dtype());
  launch(mixtures.dtype(), "logistics_scores", [&](const auto& table, auto t) {
    using T = decltype(t);
    table.logistics_scores(context(), mixtures.data<T>(), scores.data<T>(), num_rows(mixtures),
                           levels);
  });
  return scores;
}

}  // namespace linea::ops
