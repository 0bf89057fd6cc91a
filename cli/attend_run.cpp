// One attention on given tensors, in the form that is asked for.
#include "cli/attend_run.h"

#include "tensor/ops.h"

namespace linea::attend {
namespace {

void copy_into(const Tensor& from, const Tensor& to) {
  std::vector<char> bytes(from.bytes());
  from.read(bytes.data());
  to.write(bytes.data());
}

// y [B,H,N,M] of one position after the other.
template <typename T>
Tensor recurrent(const Attention& attention, const Inputs& in) {
  const int64_t B = in.q.size(0), H = in.q.size(1), N = in.q.size(2), M = in.v.size(3);
  const Kernels<T>& table = kernels<T>(context().device);
  const auto at = [&](const Tensor& x, int64_t n) {
    const int64_t width = x.numel() / (B * H * N);
    const Tensor row(x.shape().rank() == 3 ? Shape{B, H} : Shape{B, H, width}, x.dtype());
    table.copy_rows(context(), one_row<const T>(x.data<T>() + n * width, N * width),
                    one_row(row.data<T>(), width), B * H, 1, width);
    return row;
  };
  const Tensor y(in.v.shape(), in.v.dtype());
  const std::unique_ptr<AttentionState> state = attention.start(B, in.v.dtype());
  for (int64_t n = 0; n < N; ++n) {
    const Tensor row = attention.step(*state, {at(in.q, n), at(in.k, n), at(in.v, n),
                                               in.gate.defined() ? at(in.gate, n) : Tensor()});
    table.copy_rows(context(), one_row<const T>(row.data<T>(), M),
                    one_row(y.data<T>() + n * M, N * M), B * H, 1, M);
  }
  return y;
}

}  // namespace

Tensor slot_of(const Attention& attention, const std::string& name) {
  for (const Parameter& parameter : attention.parameters())
    if (parameter.name == name) return parameter.var.value();
  for (const Buffer& buffer : attention.buffers())
    if (buffer.name == name) return buffer.tensor;
  return {};
}

std::unique_ptr<Attention> attention_for(const Inputs& in, AttentionOptions options) {
  options.dtype = in.q.dtype();
  options.heads = in.q.size(1);
  options.key_size = in.q.size(3);
  options.value_size = in.v.size(3);
  if (in.omega.defined()) options.settings["features"] = in.omega.size(1);
  if (in.codebook.defined()) options.settings["codes"] = in.codebook.size(1);
  std::unique_ptr<Attention> attention = make_attention(options);
  const std::pair<const char*, Tensor> given[] = {
      {"omega", in.omega}, {"codebook", in.codebook}, {"sigma", in.sigma}};
  for (const auto& [name, tensor] : given)
    if (tensor.defined()) copy_into(tensor, slot_of(*attention, name));
  attention->buffers_changed();
  return attention;
}

std::vector<NamedTensor> compute(const Attention& attention, const Inputs& in,
                                 const std::string& gate_name, const Options& options) {
  const bool grads = in.dy.defined();
  std::optional<NoGrad> without_gradients;
  if (!grads) without_gradients.emplace();
  if (options.form == "recurrent")
    return {{"y", with_real(in.q.dtype(), "attend",
                            [&](auto zero) { return recurrent<decltype(zero)>(attention, in); })}};

  const Var q(in.q, grads), k(in.k, grads), v(in.v, grads);
  const Var gate = in.gate.defined() ? Var(in.gate, grads) : Var();
  const AttentionMask mask{options.causal, {}};
  const Var y = options.form == "quadratic" ? attention.quadratic({q, k, v, gate}, mask)
                                            : attention.forward({q, k, v, gate}, mask);
  std::vector<NamedTensor> result = {{"y", y.value()}};
  if (!grads) return result;
  backward(y, in.dy);
  const auto add = [&](const std::string& name, const Var& x) {
    result.push_back({"d" + name, x.grad()});
  };
  add("q", q);
  add("k", k);
  add("v", v);
  if (gate.defined()) add(gate_name, gate);
  for (const Parameter& parameter : attention.parameters()) add(parameter.name, parameter.var);
  return result;
}

}  // namespace linea::attend
