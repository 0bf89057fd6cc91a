// Synthesizer: softmax attention whose scores are not products of queries and keys. With tables for `length`
// positions, of each head:
//
//   random  a_ij = exp(t_i.u_j)                    tables t, u [H,length,rank]; v alone is read
//   dense   a_ij = exp(relu(q_i).p_j + c_j)        tables p [H,length,D] and c [H,length]
//
//   y_i = sum_j a_ij v_j / sum_j a_ij
//
// Either is softmax attention without a scale: t and u, or [relu(q), 1] and [p, c], are its queries and keys. The
// recurrent form keeps the values.
// Source: Tay et al. 2020, "Synthesizer: rethinking self-attention for Transformer models", eq. 7 (the factorized
// random form) and 3; its dense form has a second layer.
#include <algorithm>
#include <cmath>

#include "autograd/ops.h"
#include "autograd/qkv_layout.h"
#include "autograd/rules/naive_tools.h"
#include "autograd/slots.h"
#include "autograd/softmax_attention.h"
#include "autograd/sparse_attention.h"
#include "nn/attention/builtin.h"
#include "nn/attention/parts.h"

namespace linea {
namespace {

// [H,length,C] -> the first N positions for each sequence, [B,H,N,C].
Var for_batch(const Var& table, int64_t B, int64_t N) {
  const int64_t H = table.size(0), C = table.size(2);
  const Var first = columns(reshape(table, {H, table.size(1) * C}), 0, N * C);
  return repeat(reshape(first, {H, N, C}), B);
}

// [H,length,C] -> [1,H,length,C]
Tensor one_for_all(const Tensor& table) {
  return table.reshape({1, table.size(0), table.size(1), table.size(2)});
}

// Values of all positions, and the keys that the tables make.
class SynthesizerState final : public AttentionState {
 public:
  SynthesizerState(KeySlots of_values, Tensor of_keys)
      : values(std::move(of_values)), keys(std::move(of_keys)) {}
  size_t bytes() const override { return values.bytes() + keys.bytes(); }
  KeySlots values;  // with keys of no columns
  Tensor keys;      // [H,length,C]
};

class SynthesizerAttention final : public Attention {
 public:
  explicit SynthesizerAttention(const AttentionOptions& options)
      : Attention(options, {.reads_keys = false, .step_capturable = false, .state_growth = 1}),
        length_(std::max<int64_t>(options.length, 1)),
        random_(options.settings.text("synth") == "random") {
    const int64_t C = random_ ? options.settings.integer("rank") : options.key_size;
    const auto table = [&](uint64_t which) {
      const Tensor values({options.heads, length_, C}, options.dtype);
      draw(which, values);
      return Var(values, true);
    };
    traits_.reads_queries = !random_;
    if (random_) tables_q_ = table(0);
    tables_k_ = table(1);
    if (!random_) tables_c_ = Var(Tensor::zeros({options.heads, length_}, options.dtype), true);
    // Queries and keys of all sequences, their gradients, and those of the tables.
    traits_.saved_scalars = static_cast<double>(10 * (C + 1) + 4);
  }

  Var forward(const AttentionInputs& in, const AttentionMask& mask) const override {
    const int64_t B = in.v.size(0), N = in.v.size(2);
    check_length(N);
    const Var q = queries(in, B, N);
    const double root =
        std::sqrt(static_cast<double>(q.size(-1)));  // softmax_attention divides by it
    return softmax_attention({scale(q, root), for_batch(keys(), B, N), in.v, Var()}, mask);
  }

  Var quadratic(const AttentionInputs& in, const AttentionMask& mask) const override {
    const int64_t B = in.v.size(0), N = in.v.size(2);
    check_length(N);
    const Var k = for_batch(tables_k_, B, N);
    if (random_)
      return naive::softmax_attention(matmul(for_batch(tables_q_, B, N), k, false, true), in.v,
                                      mask);
    const Var products = matmul(pointwise(Pointwise::relu, in.q), k, false, true);
    const Shape positions{B, options_.heads, N};
    const Var c = reshape(for_batch(column(tables_c_), B, N), positions);
    return naive::softmax_attention(add(products, naive::as_columns(c, N)), in.v, mask);
  }

  std::unique_ptr<AttentionState> start(int64_t batch, DType dtype) const override {
    const NoGrad no_gradients;
    return std::make_unique<SynthesizerState>(
        KeySlots({batch, options_.heads, 64, 0}, {batch, options_.heads, 64, options_.value_size},
                 dtype),
        keys().value());
  }

  Tensor step(AttentionState& any_state, const AttentionInputs& in) const override {
    auto& state = dynamic_cast<SynthesizerState&>(any_state);
    const int64_t B = in.v.size(0), H = options_.heads, now = state.values.next,
                  C = state.keys.size(2);
    check_length(now + 1);
    const Var none(Tensor(in.v.shape().with(-1, 0), in.v.dtype()));
    add_position(state.values, {none, none, in.v, Var()}, {});
    const Tensor q = random_ ? one_for_all(tables_q_.value()) : queries(in, B, 1).value(),
                 k = one_for_all(state.keys), y(in.v.shape(), in.v.dtype());
    with_real(y.dtype(), "synthesizer", [&](auto zero) {
      using T = decltype(zero);
      HeadRows<const T> rows = HeadTensor(q).rows<T>(0, random_ ? now : 0),
                        keys = HeadTensor(k).rows<T>();
      keys.batch = 0;  // those of one sequence for all
      if (random_) rows.batch = 0;
      const Tensor log_sums({B * H}, y.dtype());
      SoftmaxShape shape{attention_shape(y, state.values.values, options_.value_size, {}),
                         {.first = 0, .end = now + 1}};
      shape.keys = now + 1;
      shape.key_size = C;
      shape.scale = 1;
      kernels<T>(context().device)
          .softmax_attention(context(), shape,
                             {rows, keys, HeadTensor(state.values.values).rows<T>()},
                             HeadTensor(y).rows<T>(), log_sums.data<T>());
    });
    return y;
  }

  AttentionFlops flops(int64_t length) const override {
    return softmax_flops({.key_size = keys().size(2), .value_size = options_.value_size},
                         (static_cast<double>(length) + 1) / 2);
  }

  Parameters parameters() const override {
    if (random_) return {{"tables_q", tables_q_}, {"tables_k", tables_k_}};
    return {{"tables_k", tables_k_}, {"tables_c", tables_c_}};
  }

 private:
  static Var column(const Var& c) { return reshape(c, {c.size(0), c.size(1), 1}); }

  Var queries(const AttentionInputs& in, int64_t B, int64_t N) const {
    if (random_) return for_batch(tables_q_, B, N);
    const Var ones(Tensor::full(in.q.shape().with(-1, 1), in.q.dtype(), 1.0));
    return join_columns({pointwise(Pointwise::relu, in.q), ones});
  }
  Var keys() const { return random_ ? tables_k_ : join_columns({tables_k_, column(tables_c_)}); }

  void check_length(int64_t N) const {
    require(N <= length_,
            "synthesizer has tables of {} positions, and position {} is asked for: raise `length`",
            length_, N);
  }

  // Scores of variance 1 at first; for relu(q) with q of variance 1, of 1/2.
  void draw(uint64_t which, const Tensor& table) const {
    const auto C = static_cast<double>(table.size(2));
    const RandomStream stream{options_.seed, Purpose::features,
                              static_cast<uint32_t>(options_.layer * options_.heads), which};
    write_normal(stream, std::pow(C, random_ ? -0.25 : -0.5), table);
  }

  int64_t length_;
  bool random_;
  Var tables_q_, tables_k_, tables_c_;
};

}  // namespace

AttentionEntry synthesizer_entry() {
  using namespace declare;
  return {
      .name = "synthesizer",
      .summary = "softmax attention by tables of positions, not by products of q and k",
      .source = "Tay 2020",
      .settings = {labeled(choice("synth", "random", {"random", "dense"},
                                  "scores of two tables, or of q and a table")),
                   labeled_if_changed(defining(
                       ".tables_q", integer("rank", 8, {1, 65536}, "columns of a random table")))},
      .make = construct<SynthesizerAttention>,
      .variants = {{{"synth", std::string("random")}, {"rank", int64_t{6}}},
                   {{"synth", std::string("dense")}}},
      .cpu_only = true,
      .tensors = {{"tables_q", "HNR", "", false, ", N positions, R `rank`; random alone"},
                  {"tables_k", "HNR", "", false, ", R `rank`, or D of dense; default: drawn"},
                  {"tables_c", "HN", "", false, "; dense alone; default: 0"}}};
}

}  // namespace linea
