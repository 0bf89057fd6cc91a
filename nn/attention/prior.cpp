// Softmax attention with a bias by distance, learned for each head:
//
//   a_ij = exp(q_i.k_j / sqrt(D) + b_|i-j|),  y_i = sum_j a_ij v_j / sum_j a_ij
//
//   gaussian  b_n = -n^2 / (2 sigma^2), sigma = exp(s), at first length / 8
//   span      b_n = ln m_n, m_n = clamp((z length - n) / ramp + 1, 0, 1), m_0 = 1; z in [0,1], at first 0
//
// Keys with m = 0 are not read. Each update of z is cut to [0,1], and the loss gets 2e-6 length times the mean
// of z. The recurrent form keeps all keys and values.
// Sources: Yang et al. 2018, "Modeling localness for self-attention networks", eq. 3, which predicts center and
// width from q, and Guo et al. 2019, "Gaussian Transformer"; Sukhbaatar et al. 2019, "Adaptive attention span in
// Transformers", eq. 3 to 5.
#include <algorithm>
#include <cmath>
#include <limits>

#include "autograd/key_ranges.h"
#include "autograd/ops.h"
#include "autograd/rules/naive_tools.h"
#include "nn/attention/builtin.h"
#include "nn/attention/parts.h"

namespace linea {
namespace {

constexpr double kSpanLoss = 2e-6;

// b_|i-j| of bias [H,N] for all pairs of each sequence: [B,H,N,N].
Var of_pairs(const Var& bias, int64_t B) {
  const int64_t H = bias.size(0), N = bias.size(1);
  const std::vector<double> b = bias.value().to_doubles();
  // The element of the bias that a pair has.
  const auto at = [=](int64_t pair) {
    return static_cast<size_t>(pair / (N * N) % H * N + std::abs(pair / N % N - pair % N));
  };
  std::vector<double> values;
  for (int64_t pair = 0; pair < B * H * N * N; ++pair) values.push_back(b[at(pair)]);
  return Var::from_op("of_pairs", Tensor::from(values, {B, H, N, N}, bias.dtype()), {bias},
                      [at, shape = bias.shape()](const Tensor& dy) {
                        const std::vector<double> gradients = dy.to_doubles();
                        std::vector<double> sums(static_cast<size_t>(shape.numel()));
                        for (size_t pair = 0; pair < gradients.size(); ++pair)
                          sums[at(static_cast<int64_t>(pair))] += gradients[pair];
                        return Tensor::from(sums, shape, dy.dtype());
                      });
}

class PriorAttention final : public Attention {
 public:
  explicit PriorAttention(const AttentionOptions& options)
      : Attention(options, {.training_capturable = false,
                            .step_capturable = false,
                            .rotary = Rotary::inputs,
                            .state_growth = 2}),
        length_(static_cast<double>(std::max<int64_t>(options.length, 1))),
        ramp_(static_cast<double>(options.settings.integer("ramp"))),
        gaussian_(options.settings.text("prior") == "gaussian") {
    const Tensor first({options.heads}, options.dtype);
    write_values(std::vector<double>(static_cast<size_t>(options.heads),
                                     gaussian_ ? std::log(length_ / 8) : 0),
                 first);
    parameter_ = Var(first, true);
    traits_.recomputable = gaussian_;  // else a term of the loss would be lost
    traits_.saved_scalars = 12;
  }

  Var forward(const AttentionInputs& in, const AttentionMask& mask) const override {
    const int64_t N = in.q.size(2);
    std::vector<std::shared_ptr<KeyRangeSets>> sets;
    std::vector<KeyTilesOf> tiles;
    for (const int64_t reach : reaches()) {
      sets.push_back(sets_of(reach));
      tiles.push_back(sets.back()->of(N, mask));
    }
    return sparse_attention(
        in, mask,
        [sets, tiles](int64_t sequence, int64_t head) {
          const auto h = static_cast<size_t>(head);
          return tiles[h](sequence, head);
        },
        0, bias(N));
  }

  Var quadratic(const AttentionInputs& in, const AttentionMask& mask) const override {
    const Var scores = scaled_scores(in.q, in.k),
              biases = of_pairs(bias(in.q.size(2)), in.q.size(0));
    return naive::softmax_attention(add(scores, biases), in.v, mask);
  }

  std::unique_ptr<AttentionState> start(int64_t batch, DType dtype) const override {
    return std::make_unique<KeySlots>(key_slots(options_, batch, 64, dtype));
  }

  Tensor step(AttentionState& state, const AttentionInputs& in) const override {
    auto& slots = dynamic_cast<KeySlots&>(state);
    const int64_t now = add_position(slots, in, {});
    std::vector<KeyTilesPtr> tiles;
    for (const int64_t reach : reaches())
      tiles.push_back(
          slot_tiles(now + 1, [=](int64_t slot) { return reach == 0 || now - slot < reach; }));
    return sparse_step(
        slots, in, [&](int64_t, int64_t head) { return tiles[static_cast<size_t>(head)]; }, 0,
        bias(now + 1).value());
  }

  // The keys that are read.
  AttentionFlops flops(int64_t length) const override {
    const auto N = static_cast<double>(std::max<int64_t>(length, 1));
    double twice_keys = 0;
    for (const int64_t reach : reaches()) {
      const double W = reach == 0 ? N : std::min(static_cast<double>(reach), N);
      twice_keys += W * (2 * N - W + 1) / N / static_cast<double>(options_.heads);
    }
    return softmax_flops(options_, twice_keys / 2);
  }

  Parameters parameters() const override { return {{gaussian_ ? "sigma" : "span", parameter_}}; }

 private:
  Var auxiliary_loss(const AttentionInputs&, const AttentionMask&) override {
    if (gaussian_) return {};
    const double factor = kSpanLoss * length_ / static_cast<double>(options_.heads);
    return Var::from_op("span_loss", ops::scale(ops::sum_rows(column(), {1}), factor), {parameter_},
                        [factor, shape = parameter_.shape()](const Tensor& dy) {
                          return Tensor::full(shape, dy.dtype(), factor * dy.item());
                        });
  }
  Tensor column() const { return parameter_.value().reshape({options_.heads, 1}); }
  void after_step() override {
    if (gaussian_) return;
    std::vector<double> z = parameter_.value().to_doubles();
    for (double& x : z) x = std::clamp(x, 0.0, 1.0);
    write_values(z, parameter_.value());
  }

  double m(double z, int64_t n) const {
    if (n == 0) return 1;
    return std::clamp((z * length_ - static_cast<double>(n)) / ramp_ + 1, 0.0, 1.0);
  }
  // The number of distances with m > 0 of each head; 0: all.
  std::vector<int64_t> reaches() const {
    std::vector<int64_t> result;
    for (const double x : parameter_.value().to_doubles()) {
      auto n = gaussian_ ? 0 : static_cast<int64_t>(std::max(x * length_ + ramp_, 1.0)) + 1;
      while (n > 1 && m(x, n - 1) == 0) --n;
      result.push_back(n);
    }
    return result;
  }

  // b [H,N], and its gradient: of s, n^2 exp(-2 s); of z, length / (ramp m) between 0 and 1.
  Var bias(int64_t N) const {
    const std::vector<double> of_heads = parameter_.value().to_doubles();
    std::vector<double> values;
    for (const double x : of_heads)
      for (int64_t n = 0; n < N; ++n) {
        const auto distance = static_cast<double>(n);
        values.push_back(gaussian_ ? -0.5 * distance * distance * std::exp(-2 * x)
                                   : std::log(m(x, n)));
      }
    return Var::from_op(
        "distance_bias", Tensor::from(values, {options_.heads, N}, parameter_.dtype()),
        {parameter_}, [=, this](const Tensor& db) {
          const std::vector<double> all = db.to_doubles();
          std::vector<double> sums;
          for (size_t h = 0; h < of_heads.size(); ++h) {
            double sum = 0;
            for (int64_t n = 1; n < N; ++n) {
              const double share = m(of_heads[h], n),
                           gradient = all[h * static_cast<size_t>(N) + static_cast<size_t>(n)];
              const auto distance = static_cast<double>(n);
              if (gaussian_)
                sum += gradient * distance * distance * std::exp(-2 * of_heads[h]);
              else if (share > 0 && share < 1)
                sum += gradient * length_ / (ramp_ * share);
            }
            sums.push_back(sum);
          }
          return Tensor::from(sums, {options_.heads}, db.dtype());
        });
  }

  std::shared_ptr<KeyRangeSets> sets_of(int64_t reach) const {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (known_.size() > 64) known_.clear();
    std::shared_ptr<KeyRangeSets>& sets = known_[reach];
    if (sets == nullptr)
      sets = std::make_shared<KeyRangeSets>(
          [](int64_t N) { return N; },
          [reach](const SetSize& size, int64_t i, std::vector<KeyRange>& ranges) {
            const int64_t far = reach == 0 ? size.positions : reach;
            ranges.push_back({std::max<int64_t>(i - far + 1, 0),
                              std::min(size.valid, size.causal ? i + 1 : i + far)});
          });
    return sets;
  }

  double length_, ramp_;
  bool gaussian_;
  Var parameter_;  // s or z [H]
  mutable std::mutex mutex_;
  mutable std::map<int64_t, std::shared_ptr<KeyRangeSets>> known_;  // by reach
};

}  // namespace

AttentionEntry prior_entry() {
  using namespace declare;
  return {.name = "prior",
          .summary = "softmax attention with a learned bias by distance",
          .source = "Yang 2018, Guo 2019, Sukhbaatar 2019",
          .settings = {labeled(choice("prior", "gaussian", {"gaussian", "span"},
                                      "a Gaussian of the distance, or a span of keys")),
                       labeled_if_changed(integer("ramp", 32, at_least(1),
                                                  "positions over which a span fades out"))},
          .make = construct<PriorAttention>,
          .variants = {{{"prior", std::string("gaussian")}}, {{"prior", std::string("span")}}},
          .cpu_only = true,
          .tensors = {
              {"sigma", "H", "", false, ", the logs of widths; gaussian alone; default: log N/8"},
              {"span", "H", "", false, ", from 0 to 1; span alone; default: 0"}}};
}

}  // namespace linea
