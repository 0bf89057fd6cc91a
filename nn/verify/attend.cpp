#include "nn/verify/attend.h"

#include <optional>

#include "autograd/key_slots.h"
#include "autograd/ops.h"
#include "autograd/rules/naive_tools.h"
#include "tensor/ops.h"

namespace linea::attend {
namespace {

// y [B,H,N,M] of one position after the other.
Tensor recurrent(const Attention& attention, const Inputs& in) {
  const int64_t B = in.q.size(0), H = in.q.size(1), N = in.q.size(2), M = in.v.size(3);
  const Tensor y({N, B, H, 1, M}, in.v.dtype());
  each_step(attention, in, [&](int64_t t, const Tensor& y_t, const AttentionState&) {
    ops::copy_into(y_t, y.select(t));
  });
  return ops::permute(y, {{1, 1, N, B * H}, {0, 1, 3, 2}, M}, in.v.shape());
}

// The fast forms know the gradient of a decay to about 1e-7 of its largest terms, over the gate: a
// remainder of sums that cancel, and 0 at 0 and 1.
constexpr double kPreciseFrom = 0.01;

// The gradient of the gates, with the part of decays computed again where a gate is below kPreciseFrom, or 1.
Tensor gate_gradient(const Attention& attention, const AttentionInputs& in, const Tensor& dy) {
  const std::vector<double> gates = in.gate.value().to_doubles();
  const auto stride = static_cast<size_t>(attention.gate().size);  // a decay is the last
  bool precise = true;
  for (size_t i = stride - 1; i < gates.size(); i += stride)
    precise = precise && gates[i] >= kPreciseFrom && gates[i] < 1;
  const Tensor decays = precise ? Tensor() : attention.decay_gradient(in, dy);
  if (!decays.defined()) return in.gate.grad();
  std::vector<double> result = in.gate.grad().to_doubles();
  const std::vector<double> values = decays.to_doubles();
  for (size_t i = 0; i < values.size(); ++i) result[(i + 1) * stride - 1] = values[i];
  return Tensor::from(result, in.gate.shape(), in.gate.dtype());
}

}  // namespace

Form parse_form(const std::string& name) {
  return static_cast<Form>(check_choice("form", name, {"quadratic", "chunked", "recurrent"}));
}

std::string decision_name(size_t n) {
  return n == 0 ? "decisions" : fmt::format("decisions{}", n + 1);
}

Tensor find_tensor(const Attention& attention, const std::string& name) {
  for (const Parameter& parameter : attention.parameters())
    if (parameter.name == name) return parameter.var.value();
  for (const Buffer& buffer : attention.buffers())
    if (buffer.name == name) return buffer.tensor;
  return {};
}

std::unique_ptr<Attention> attention_for(const Inputs& in, AttentionOptions options) {
  options.dtype = in.q.dtype();
  options.heads = in.q.size(1);
  options.length = in.q.size(2);
  options.key_size = in.q.size(3);
  options.value_size = in.v.size(3);
  const std::vector<InputTensor>& declared = find_attention(options.name).tensors;
  for (const NamedTensor& given : in.tensors)
    for (const InputTensor& input : declared)
      for (size_t axis = 0; axis < input.axes.size() && input.name == given.name; ++axis)
        if (std::string("HD1").find(input.axes[axis]) == std::string::npos &&
            !input.setting.empty())
          options.settings[input.setting] = given.tensor.size(static_cast<int>(axis));
  std::unique_ptr<Attention> attention = make_attention(options);
  for (const auto& [name, tensor] : in.tensors) {
    const Tensor own = find_tensor(*attention, name);
    if (!own.defined())
      fail(ErrorKind::input, "{} has no {}: leave it out", label_of(options), name);
    if (own.shape() != tensor.shape())
      fail(ErrorKind::input, "{} is {}; of {} it must be {}", name, tensor.shape().str(),
           label_of(options), own.shape().str());
    ops::copy_into(tensor, own);
  }
  attention->buffers_changed();
  return attention;
}

Tensor identity_values(const Tensor& q) {
  const auto diagonal = [](int64_t, int64_t i, int64_t j) { return i == j; };
  const Shape pairs = q.shape().with(-1, q.size(2));
  return exp(Var(naive::log_mask(pairs, DType::f64, {false, {}}, diagonal))).value();
}

void each_step(const Attention& attention, const Inputs& in, const VisitStep& visit) {
  const NoGrad no_grad;
  const std::unique_ptr<AttentionState> state = attention.start(in.q.size(0), in.v.dtype());
  for (int64_t n = 0; n < in.q.size(2); ++n) {
    const auto now = [n](const Tensor& x) {
      return x.defined() ? Var(read_slots(x, n, 1)) : Var();
    };
    visit(n, attention.step(*state, {now(in.q), now(in.k), now(in.v), now(in.gate)}), *state);
  }
}

std::vector<NamedTensor> compute(const Attention& attention, const Inputs& in, Form form,
                                 bool causal) {
  const bool grads = in.dy.defined();
  const auto without_gradients = grads ? nullptr : std::make_unique<NoGrad>();
  if (form == Form::recurrent) return {{"y", recurrent(attention, in)}};

  const Var q(in.q, grads), k(in.k, grads), v(in.v, grads);
  const Var gate = in.gate.defined() ? Var(in.gate, grads) : Var();
  const AttentionMask mask{causal, {}};
  Decisions decisions;
  const RecordDecisions record(decisions);
  std::optional<ReplayDecisions> replay;
  if (!in.decisions.empty()) replay.emplace(in.decisions);
  const Var y = form == Form::quadratic ? attention.quadratic({q, k, v, gate}, mask)
                                        : attention.forward({q, k, v, gate}, mask);
  std::vector<NamedTensor> result = {{"y", y.value()}};
  for (size_t n = 0; n < decisions.size(); ++n) result.push_back({decision_name(n), decisions[n]});
  if (!grads) return result;
  backward(y, in.dy);
  Parameters leaves = {{"q", q}, {"k", k}, {"v", v}};
  for (const Parameter& parameter : attention.parameters()) leaves.push_back(parameter);
  for (const Parameter& leaf : leaves)
    if (leaf.var.grad().defined())  // gates as values take no parameter
      result.push_back({"d" + leaf.name, leaf.var.grad()});
  if (!gate.defined()) return result;
  const Var dgate(gate_gradient(attention, {q, k, v, gate}, in.dy));
  int64_t first = 0;
  for (const GateValue& part : attention.gate().parts()) {
    const Tensor some = columns(dgate, first, part.size).value();
    const Shape positions{some.size(0), some.size(1), some.size(2)};
    result.push_back({"d" + part.name, part.size == 1 ? some.reshape(positions) : some});
    first += part.size;
  }
  return result;
}

}  // namespace linea::attend
