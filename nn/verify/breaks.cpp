#include "nn/verify/breaks.h"

#include <algorithm>
#include <cmath>

#include "autograd/ops.h"
#include "autograd/rules/naive_tools.h"
#include "tensor/ops.h"

namespace linea::sabotage {
namespace {

// The forward pass is another function of the right attention.
using Forward = Var (*)(const Attention& right, const AttentionInputs& in,
                        const AttentionMask& mask);

template <Forward kWrong>
class WrongForward final : public Saboteur {
 public:
  using Saboteur::Saboteur;
  Var forward(const AttentionInputs& in, const AttentionMask& mask) const override {
    return kWrong(*right_, in, mask);
  }
};

// Gradients of q and k are 1% too large, as where the derivative of a feature map is wrong.
Var with_wrong_gradient(const Attention& right, const AttentionInputs& in,
                        const AttentionMask& mask) {
  AttentionInputs wrong = in;
  wrong.q = with_gradient_times(in.q, 1.01);
  wrong.k = with_gradient_times(in.k, 1.01);
  return right.forward(wrong, mask);
}

// Causal is asked for, and not done.
Var that_sees_all(const Attention& right, const AttentionInputs& in, const AttentionMask& mask) {
  return right.forward(in, {false, mask.valid});
}

// Keys are stabilized by the largest of the whole sequence: the future shows in the past.
Var with_leaky_stabilizer(const Attention& right, const AttentionInputs& in,
                          const AttentionMask& mask) {
  const std::vector<double> keys = in.k.value().to_doubles();
  const double largest = *std::max_element(keys.begin(), keys.end());
  AttentionInputs wrong = in;
  wrong.k = add(in.k, Var(Tensor::full(in.k.shape(), in.k.dtype(), -largest)));
  return right.forward(wrong, mask);
}

// Padded keys stay in the denominator: their values are taken out, their weights are not.
Var with_padding_in_denominator(const Attention& right, const AttentionInputs& in,
                                const AttentionMask& mask) {
  AttentionInputs wrong = in;
  wrong.v = clear_padding(in.v, mask.valid);
  return right.forward(wrong, {mask.causal, {}});
}

// exp of scores without taking the largest out first.
Var that_overflows(const Attention&, const AttentionInputs& in, const AttentionMask& mask) {
  const double root = std::sqrt(static_cast<double>(in.q.size(-1)));
  const Var scores = scale(matmul(in.q, in.k, false, true), 1.0 / root);
  const Var visible(naive::log_mask(scores.shape(), scores.dtype(), mask));
  return matmul(normalize(exp(add(scores, visible))), in.v);
}

// omega is drawn again between training and sampling.
class RedrawnForSteps final : public Saboteur {
 public:
  explicit RedrawnForSteps(const AttentionOptions& options) : Saboteur(options) {
    AttentionOptions redrawn = options;
    redrawn.settings["redraw"] = 1;
    right_ = make_attention(redrawn);
  }
  std::unique_ptr<AttentionState> start(int64_t batch, DType dtype) const override {
    right_->before_step(1, 2);
    return right_->start(batch, dtype);
  }
};

template <typename Wrong>
std::unique_ptr<Attention> make(const AttentionOptions& options) {
  return std::make_unique<Wrong>(options);
}

}  // namespace

Saboteur::Saboteur(const AttentionOptions& options) : right_(make_attention(options)) {
  traits_ = right_->traits();
  gate_ = right_->gate();
}

Var with_gradient_times(const Var& x, double factor) {
  return Var::from_op("wrong", x.value(), {x},
                      [factor](const Tensor& dy) { return ops::scale(dy, factor); });
}

const std::vector<Break>& breaks() {
  static const std::vector<Break> all = {
      {"gradient", "gradients of q and k are 1% too large", "",
       make<WrongForward<with_wrong_gradient>>},
      {"future", "every position sees all positions", "", make<WrongForward<that_sees_all>>, true},
      {"stabilizer", "the largest key of the whole sequence is subtracted from all keys",
       "--attention linear --feature exp", make<WrongForward<with_leaky_stabilizer>>},
      {"padding", "padded keys stay in the denominator", "",
       make<WrongForward<with_padding_in_denominator>>},
      {"redraw", "omega changes between training and sampling", "--attention performer",
       make<RedrawnForSteps>},
      {"overflow", "exp of scores from which the largest was not subtracted", "--attention softmax",
       make<WrongForward<that_overflows>>}};
  return all;
}

std::vector<std::string> break_names() {
  std::vector<std::string> names;
  for (const Break& one : breaks()) names.push_back(one.name);
  return names;
}

const Break& find_break(const std::string& name) {
  return breaks()[check_choice("break", name, break_names())];
}

}  // namespace linea::sabotage
