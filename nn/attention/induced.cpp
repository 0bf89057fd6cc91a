// Induced attention: m trained queries p_s read the sequence, and the positions read the results, by
// matrices W_k [M,D] and W_v [M,M] of a head:
//
//   h_s = sum_j softmax_j(p_s.k_j / sqrt(D)) v_j
//   y_i = sum_s softmax_s(q_i.(h_s W_k) / sqrt(D)) h_s W_v
//
// p starts as N(0, 1), W_k and W_v with 1 on their diagonals. Norm, residual and feed-forward layer of
// the paper's blocks are those of the Transformer's. Not causal: each induced point reads the whole set.
// Source: Lee et al. 2019, "Set Transformer", eq. 9-10.
#include "autograd/ops.h"
#include "autograd/rules/naive_tools.h"
#include "autograd/slots.h"
#include "autograd/softmax_attention.h"
#include "nn/attention/builtin.h"
#include "nn/attention/parts.h"

namespace linea {
namespace {

// The matrices of heads [H,rows,columns] with 1 on their diagonals.
Var identity_parameter(const AttentionOptions& options, int64_t rows, int64_t columns) {
  std::vector<double> values;
  for (int64_t i = 0; i < options.heads * rows; ++i)
    for (int64_t j = 0; j < columns; ++j) values.push_back(i % rows == j ? 1 : 0);
  return Var(Tensor::from(values, {options.heads, rows, columns}, options.dtype), true);
}

class InducedAttention final : public Attention {
 public:
  explicit InducedAttention(const AttentionOptions& options)
      : Attention(options,
                  {.not_causal = "each induced point reads the whole set; luna has a causal form",
                   .weighs_values = false}),
        count_(options.settings.integer("slots")) {
    const int64_t D = options.key_size, M = options.value_size;
    slots_ = normal_parameter(options, {options.heads, count_, D}, 1);
    slot_key_ = identity_parameter(options, M, D);
    slot_value_ = identity_parameter(options, M, M);
  }

  Var forward(const AttentionInputs& in, const AttentionMask& mask) const override {
    const ExactProducts exact_products;
    require_form(mask.causal);
    const Var slots = repeat(slots_, in.q.size(0)),
              h = softmax_attention({slots, in.k, in.v, Var()}, mask);
    return softmax_attention({in.q, head_matmul(h, slot_key_), head_matmul(h, slot_value_), Var()},
                             {false, {}});
  }

  Var quadratic(const AttentionInputs& in, const AttentionMask& mask) const override {
    require_form(mask.causal);
    const int64_t B = in.q.size(0);
    const Var h = naive::softmax_attention(
                  scaled_scores(repeat(slots_, B), clear_padding(in.k, mask.valid)),
                  clear_padding(in.v, mask.valid), mask),
              keys = matmul(h, repeat(slot_key_, B)), values = matmul(h, repeat(slot_value_, B));
    return naive::softmax_attention(scaled_scores(in.q, keys), values, {false, {}});
  }

  AttentionFlops flops(int64_t) const override {
    const AttentionFlops once = softmax_flops(options_, static_cast<double>(count_));
    return {2 * once.forward, 2 * once.training};
  }

  Parameters parameters() const override {
    return {{"slots", slots_}, {"slot_key", slot_key_}, {"slot_value", slot_value_}};
  }

 private:
  int64_t count_;
  Var slots_, slot_key_, slot_value_;  // [H,m,D], [H,M,D], [H,M,M]
};

}  // namespace

AttentionEntry induced_entry() {
  using namespace declare;
  return {.name = "induced",
          .summary = "softmax attention to trained queries that read the sequence",
          .source = "Lee 2019, Set Transformer",
          .settings = {labeled(
              defining(".slots", integer("slots", 64, {1, 65536}, "induced points of a head")))},
          .make = construct<InducedAttention>,
          .variants = {{{"slots", int64_t{8}}}},
          .cpu_only = true,
          .tensors = {{"slots", "HCD", "slots", false, "; default: sampled with --seed"},
                      {"slot_key", "HMD", "", false, "; default: the identity"},
                      {"slot_value", "HMM", "", false, "; default: the identity"}}};
}

}  // namespace linea
