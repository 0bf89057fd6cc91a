#include "nn/verify/show.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "autograd/delta_attention.h"
#include "autograd/key_slots.h"
#include "autograd/linear_attention.h"
#include "autograd/ops.h"
#include "autograd/rules/naive_tools.h"
#include "nn/attention/mapped_attention.h"
#include "tensor/ops.h"

namespace linea::attend {
namespace {

Tensor to_f64(const Tensor& x) {
  return x.defined() ? Tensor::from(x.to_doubles(), x.shape(), DType::f64) : x;
}

// x [B,H,N,W] with row i times exp(logs_i), logs [B,H,N].
Tensor scaled_rows(const Tensor& x, const Var& logs) {
  return ops::multiply(x, naive::as_rows(exp(logs), x.size(3)).value());
}

class Show {
 public:
  Show(const AttentionOptions& options, const Inputs& in, Form form, bool causal)
      : options_(options),
        in_(in),
        form_(form),
        causal_(causal),
        attention_(attention_for(in, options)),
        mapped_(dynamic_cast<const MappedAttention*>(attention_.get())) {}

  std::string features() const {
    require(mapped_ != nullptr, "`show` features: {} has none; leave it out", label_of(options_));
    const auto [q, k] = features_of_rows();
    return to_text({{"phi(q)", q}, {"phi(k)", k}});
  }

  std::string weights() const {
    std::vector<NamedTensor> shown;
    if (mapped_ != nullptr) shown.push_back({"phi(q).phi(k)", products()});
    shown.push_back({"weights", normalized()});
    return to_text(shown);
  }

  std::string state() const {
    check_recurrent("state");
    std::vector<NamedTensor> last;
    each_step(*attention_, in_, [&](int64_t t, const Tensor&, const AttentionState& state) {
      if (t + 1 == in_.q.size(2)) last = parts_of(state, in_.v.size(3));
    });
    return to_text(last);
  }

  std::string steps() const {
    if (form_ == Form::recurrent) return recurrent_steps();
    return form_ == Form::chunked ? chunks() : rows_of_weights();
  }

 private:
  // phi(q), phi(k)
  std::pair<Tensor, Tensor> features_of_rows() const {
    const naive::Inputs f = inputs();
    if (f.logs) return {exp(f.q).value(), exp(f.k).value()};
    const bool weighed = mapped_->map().weighs_keys() && f.gates.log_weight.defined();
    return {f.q.value(), weighed ? scaled_rows(f.k.value(), f.gates.log_weight) : f.k.value()};
  }
  naive::Inputs inputs() const {
    const NoGrad no_grad;
    return mapped_->features_of(
        {Var(in_.q), Var(in_.k), Var(in_.v), in_.gate.defined() ? Var(in_.gate) : Var()},
        {causal_, {}});
  }

  // 0 where i does not see j.
  Tensor products() const {
    const auto [q, k] = features_of_rows();
    const Tensor all = ops::matmul(q, k, false, true);
    return causal_ ? ops::mask_causal(all, 0) : all;
  }

  Tensor normalized() const {
    Inputs identity = in_;
    identity.v = identity_values(in_.q);
    return compute(*attention_for(identity, options_), identity, form_, causal_)[0].tensor;
  }

  std::string recurrent_steps() const {
    check_recurrent("steps");
    std::string text;
    Tensor before;  // S
    each_step(*attention_, in_, [&](int64_t t, const Tensor& y, const AttentionState& state) {
      std::vector<NamedTensor> shown = parts_of(state, in_.v.size(3));
      if (corrects()) {
        shown.insert(shown.begin(), {"x", written(t, before)});
        before = shown[1].tensor;
      }
      shown.push_back({"y", y});
      text += fmt::format("t = {}\n{}", t + 1, to_text(shown, 2));
    });
    return text;
  }

  bool corrects() const {
    return mapped_ != nullptr && !mapped_->rule().has_denominators() &&
           mapped_->rule().spec().kind.corrects;
  }

  // x_t = beta_t (v_t - phi(k_t) a_t S_{t-1}), what a rule that corrects writes; `before`: S_{t-1},
  // undefined: 0.
  Tensor written(int64_t t, const Tensor& before) const {
    const naive::Inputs f = inputs();
    const Var& decay = f.gates.log_decay;  // of a head, or of each feature
    const auto now = [t](const Var& x) { return read_slots(x.value(), t, 1); };
    Var k = f.k;
    if (decay.defined())
      k = multiply(k, exp(decay.shape().rank() == 4 ? decay : naive::as_rows(decay, k.size(3))));
    Tensor missed = now(f.v);
    if (before.defined()) missed = ops::add(missed, ops::scale(ops::matmul(now(k), before), -1));
    return ops::multiply(now(naive::as_rows(f.gates.beta, f.v.size(3))), missed);
  }

  // y_i d_i = phi(q_i) S + sum_j a_ij v_j, d_i = phi(q_i).z + sum_j a_ij, S and z before the chunk,
  // j in it.
  std::string chunks() const {
    require(causal_, "`show` steps: chunks have an order in the causal form alone: add --causal");
    require(mapped_ != nullptr && mapped_->traits().denominators && !in_.gate.defined(),
            "`show` steps of --form chunked is for rules that add without gates; use --form "
            "recurrent for {}",
            label_of(options_));
    const auto [all_q, all_k] = features_of_rows();
    const Tensor y = compute(*attention_, in_, form_, causal_)[0].tensor;
    const int64_t N = in_.q.size(2), chunk = options_.chunk > 0 ? options_.chunk : N;
    Tensor S = Tensor::zeros({in_.q.size(0), in_.q.size(1), all_k.size(3), in_.v.size(3)},
                             DType::f64),
           z = Tensor::zeros(S.shape().with(3, 1), DType::f64);
    const Tensor ones = Tensor::full(in_.v.shape().with(3, 1), DType::f64, 1);
    std::string text;
    for (int64_t first = 0; first < N; first += chunk) {
      const int64_t rows = std::min(chunk, N - first);
      const auto part = [&](const Tensor& x) { return read_slots(x, first, rows); };
      const Tensor q = part(all_q), k = part(all_k), v = part(in_.v), one = part(ones);
      const Tensor within = ops::mask_causal(ops::matmul(q, k, false, true), 0);
      text += fmt::format("positions {} to {}\n{}", first + 1, first + rows,
                          to_text({{"S before", S},
                                   {"z before", z.reshape({z.size(0), z.size(1), z.size(2)})},
                                   {"phi(q) S", ops::matmul(q, S)},
                                   {"sum a v", ops::matmul(within, v)},
                                   {"phi(q).z", ops::matmul(q, z)},
                                   {"sum a", ops::matmul(within, one)},
                                   {"y", part(y)}},
                                  2));
      S = ops::add(S, ops::matmul(k, v, true));
      z = ops::add(z, ops::matmul(k, one, true));
    }
    return text;
  }

  std::string rows_of_weights() const {
    const Tensor a = normalized(), y = compute(*attention_, in_, form_, causal_)[0].tensor;
    std::string text;
    for (int64_t t = 0; t < in_.q.size(2); ++t)
      text +=
          fmt::format("t = {}\n{}", t + 1,
                      to_text({{"weights", read_slots(a, t, 1)}, {"y", read_slots(y, t, 1)}}, 2));
    return text;
  }

  void check_recurrent(const char* name) const {
    require(attention_->traits().not_causal.empty(),
            "`show` {}: {} has no recurrent form, so no state: {}; leave it out", name,
            label_of(options_), attention_->traits().not_causal);
  }

  AttentionOptions options_;
  const Inputs& in_;
  Form form_;
  bool causal_;
  std::unique_ptr<Attention> attention_;
  const MappedAttention* mapped_;
};

}  // namespace

std::vector<std::string> shown_names() { return {"features", "weights", "state", "steps"}; }

std::string show(const AttentionOptions& options, const Inputs& in, Form form, bool causal,
                 const std::vector<std::string>& names) {
  require(in.q.size(2) <= kMaxShown,
          "`show` is for at most {} positions, and q has {}: give a shorter sequence, or leave it "
          "out",
          kMaxShown, in.q.size(2));
  Inputs exact = in;
  for (Tensor* x : {&exact.q, &exact.k, &exact.v, &exact.gate}) *x = to_f64(*x);
  for (NamedTensor& given : exact.tensors) given.tensor = to_f64(given.tensor);
  exact.dy = {};
  const Show of(options, exact, form, causal);
  std::string text;
  for (const std::string& name : names) {
    const size_t which = static_cast<size_t>(check_choice("show", name, shown_names()));
    text += which == 0   ? of.features()
            : which == 1 ? of.weights()
            : which == 2 ? of.state()
                         : of.steps();
  }
  return text;
}

std::vector<NamedTensor> parts_of(const AttentionState& state, int64_t values) {
  if (const auto* linear = dynamic_cast<const LinearState*>(&state)) {
    const RecurrentState& sums = linear->recurrent;
    const Tensor z = sums.key_sum().clone();
    Tensor S({z.size(0), z.size(1), z.size(2), values}, DType::f64);
    S.write(sums.view<double>().sums.state);
    if (!sums.scale().defined()) return {{"S", S}, {"z", z}};
    const Var logs(sums.scale());
    return {{"S", scaled_rows(S, logs)}, {"z", ops::multiply(z, exp(logs).value())}};
  }
  if (const auto* delta = dynamic_cast<const DeltaState*>(&state))
    return {{"S", delta->state.clone()}};
  if (const auto* slots = dynamic_cast<const KeySlots*>(&state)) {
    const int64_t used = std::ssize(slots->positions);
    return {{"keys", read_slots(slots->keys, 0, used)},
            {"values", read_slots(slots->values, 0, used)}};
  }
  return {{"bytes", Tensor::full({1}, DType::f64, static_cast<double>(state.bytes()))}};
}

std::string number_text(double x) {
  const double whole = std::round(x);
  if (std::abs(x - whole) > 5e-7 || !std::isfinite(x)) return fmt::format("{:.6f}", x);
  return fmt::format("{:.0f}", whole == 0 ? 0.0 : whole);
}

std::string to_text(const std::vector<NamedTensor>& tensors, size_t indent) {
  struct Matrix {
    std::string name;
    std::vector<std::string> numbers;
    size_t columns;
  };
  std::vector<Matrix> all;
  size_t names = 0;
  for (const auto& [name, tensor] : tensors) {
    const Shape& shape = tensor.shape();
    const std::vector<double> values = tensor.to_doubles();
    // [B,H] of [B,H,N,W] and [B,H,W]; the rest is one matrix
    const bool heads = shape.rank() >= 3;
    const size_t H = heads ? static_cast<size_t>(shape[1]) : 1,
                 count = heads ? static_cast<size_t>(shape[0]) * H : 1;
    const size_t columns = shape.rank() == 0 ? 1 : static_cast<size_t>(shape[-1]),
                 each = values.size() / count;
    for (size_t index = 0; index < count; ++index) {
      Matrix matrix{
          count == 1 ? name : fmt::format("{}[{},{}]", name, index / H, index % H), {}, columns};
      for (size_t i = 0; i < each; ++i)
        matrix.numbers.push_back(number_text(values[index * each + i]));
      names = std::max(names, matrix.name.size());
      all.push_back(matrix);
    }
  }
  std::string text;
  for (const Matrix& matrix : all) {
    size_t width = 0;
    for (const std::string& number : matrix.numbers) width = std::max(width, number.size());
    for (size_t i = 0; i < matrix.numbers.size(); ++i) {
      if (i % matrix.columns == 0)
        text += fmt::format("{}{}{:<{}}", i == 0 ? "" : "\n", std::string(indent, ' '),
                            i == 0 ? matrix.name : "", names);
      text += fmt::format("  {:>{}}", matrix.numbers[i], width);
    }
    text += "\n";
  }
  return text;
}

}  // namespace linea::attend
