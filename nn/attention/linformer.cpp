// Linformer: softmax attention to m mixtures of the keys and values, by matrices E and F [length,m] of a
// head whose first L rows are those of the L valid positions:
//
//   k'_s = sum_j E_js k_j,  v'_s = sum_j F_js v_j,  y_i = sum_s softmax_s(q_i.k'_s / sqrt(D)) v'_s
//
// E and F start as N(0, 1 / length). They are one by default, and may be one for all heads. Not causal:
// each slot mixes all positions.
// Source: Wang et al. 2020, "Linformer: self-attention with linear complexity", eq. 7.
#include <algorithm>
#include <cmath>

#include "autograd/ops.h"
#include "autograd/slots.h"
#include "autograd/softmax_attention.h"
#include "nn/attention/builtin.h"
#include "nn/attention/parts.h"

namespace linea {
namespace {

class Linformer final : public Attention {
 public:
  explicit Linformer(const AttentionOptions& options)
      : Attention(options, {.not_causal = "each slot mixes all positions"}),
        slots_(options.settings.integer("slots")),
        length_(std::max<int64_t>(options.length, 1)) {
    const std::string& share = options.settings.text("share");
    const Shape shape{share == "heads" ? 1 : options.heads, length_, slots_};
    const double stddev = 1 / std::sqrt(static_cast<double>(length_));
    compress_k_ = normal_parameter(options, shape, stddev, 0);
    if (share == "none") compress_v_ = normal_parameter(options, shape, stddev, 1);
    traits_.saved_scalars += static_cast<double>(2 * slots_);  // the gradients of E and F
  }

  Var forward(const AttentionInputs& in, const AttentionMask& mask) const override {
    const ExactProducts exact_products;
    check(in, mask);
    const Var k = mix_rows(clear_padding(in.k, mask.valid), compress_k_),
              v = mix_rows(clear_padding(in.v, mask.valid), values_matrix());
    return softmax_attention({in.q, k, v, Var()}, {false, {}});
  }

  Var quadratic(const AttentionInputs& in, const AttentionMask& mask) const override {
    check(in, mask);
    const Var k = mixed(clear_padding(in.k, mask.valid), compress_k_),
              v = mixed(clear_padding(in.v, mask.valid), values_matrix());
    return matmul(softmax(scaled_scores(in.q, k)), v);
  }

  AttentionFlops flops(int64_t) const override {
    const AttentionFlops reads = softmax_flops(options_, static_cast<double>(slots_));
    return {2 * reads.forward, reads.training + 3 * reads.forward};
  }

  Parameters parameters() const override {
    Parameters all = {{"compress_k", compress_k_}};
    if (compress_v_.defined()) all.push_back({"compress_v", compress_v_});
    return all;
  }

 private:
  const Var& values_matrix() const { return compress_v_.defined() ? compress_v_ : compress_k_; }

  void check(const AttentionInputs& in, const AttentionMask& mask) const {
    require_form(mask.causal);
    require(in.q.size(2) <= length_,
            "`attention` linformer has matrices for {} positions, of which {} are given: set "
            "`length` to {} or more",
            length_, in.q.size(2), in.q.size(2));
  }

  // W^T X with one W for each sequence and head, X with rows of zeros up to `length`.
  Var mixed(const Var& x, const Var& w) const {
    const int64_t B = x.size(0), H = x.size(1);
    const Var place = constant_matrix(x, length_, x.size(2),
                                      [](int64_t, int64_t i, int64_t n) { return i == n ? 1 : 0; });
    const Var all = reshape(repeat(w, B * H / w.size(0)), {B, H, length_, slots_});
    return matmul(all, matmul(place, x), true);
  }

  int64_t slots_, length_;
  Var compress_k_, compress_v_;  // the latter undefined: the former
};

}  // namespace

AttentionEntry linformer_entry() {
  using namespace declare;
  const auto variant = [](const char* share) {
    return Settings{{"slots", int64_t{8}}, {"share", std::string(share)}};
  };
  const std::string note = ", G the heads, with --share heads 1; default: sampled with --seed";
  return {
      .name = "linformer",
      .summary = "softmax attention to mixtures of all keys and values",
      .source = "Wang 2020",
      .settings =
          {labeled(defining(".compress_", integer("slots", 64, {1, 65536}, "mixtures of a head"))),
           labeled_if_changed(defining(
               ".compress_",
               choice("share", "kv", {"kv", "none", "heads"},
                      "one matrix for keys and values of a head, two, or one for all heads")))},
      .make = construct<Linformer>,
      .variants = {variant("kv"), variant("none"), variant("heads")},
      .cpu_only = true,
      .tensors = {{"compress_k", "GNC", "slots", false, note},
                  {"compress_v", "GNC", "slots", false, ", with --share none; likewise"}}};
}

}  // namespace linea
