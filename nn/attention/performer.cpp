// The Performer (FAVOR+): linear attention with random features of x^ = x / D^{1/4} that estimate
// softmax, E phi(q^).phi(k^) = exp(q.k / sqrt(D)). Each head has its omega
// (nn/random_projection.h):
//
//   positive     phi_f = exp(omega_f.x^ - |x^|^2 / 2) / sqrt(R)                  (lemma 1)
//   hyperbolic   the same with the rows omega and -omega, F = 2R
//   trig         phi = exp(|x^|^2 / 2) [sin(omega.x^), cos(omega.x^)] / sqrt(R), F = 2R
//   relu         phi = relu(omega.x^) + 1e-3                       (generalized attention)
//
// What multiplies all features of a query cancels in y, and so does 1 / sqrt(R): both are left out.
// The first two are given as logs, trig with exp(|k^|^2 / 2) as the key's weight. For these two
// x and omega are bf16 numbers in bf16 runs: the products omega.x^ are those of float. Weights of
// trig cancel, and the derivative of relu jumps where omega.x^ changes its sign: they round nothing.
// Source: Choromanski et al. 2021, "Rethinking attention with Performers".
#include <cmath>

#include "nn/attention/builtin.h"
#include "nn/attention/mapped_attention.h"
#include "nn/attention/parts.h"

namespace linea {
namespace {

const std::vector<std::string> kFeatures = {"positive", "hyperbolic", "trig", "relu"};

class RandomFeatures final : public FeatureMap {
 public:
  // omega [H,R,D] may change between calls.
  RandomFeatures(const std::string& feature, Tensor omega)
      : hyperbolic_(feature == "hyperbolic"),
        trig_(feature == "trig"),
        relu_(feature == "relu"),
        omega_(std::move(omega)),
        root_(std::sqrt(std::sqrt(static_cast<double>(omega_.size(2))))) {}

  int64_t features(int64_t) const override {
    return (hyperbolic_ || trig_ ? 2 : 1) * omega_.size(1);
  }
  FeatureKind kind() const override {
    return trig_ || relu_ ? FeatureKind::values : FeatureKind::logs;
  }
  bool weighs_keys() const override { return trig_; }
  bool takes_rounded() const override { return kind() == FeatureKind::logs; }

  Features forward(const Tensor& x, Side side, const HeadRange& heads) const override {
    if (kind() == FeatureKind::logs && side == Side::key)
      return {ops::random_logs(x, directions(), heads.first, 1 / root_), {}, {}};
    const Tensor u = project(x, true, heads);
    if (trig_)
      return {ops::sine_cosine(u), side == Side::key ? half_square_norms(x) : Tensor(), {}};
    return {relu_ ? ops::pointwise(Pointwise::feature_relu, u) : u, {}, {}};
  }

  Tensor backward(const Tensor& x, const Features& features, const Features& gradient, Side side,
                  const HeadRange& heads, const std::vector<Tensor>&) const override {
    Tensor du = gradient.rows;
    if (trig_) du = ops::sine_cosine_backward(features.rows, du);
    if (relu_) {
      const Tensor u = project(x, true, heads);
      du = ops::pointwise_backward(Pointwise::feature_relu, u, du);
    }
    if (kind() == FeatureKind::logs && side == Side::key)
      return ops::random_logs_backward(x, du, directions(), heads.first, 1 / root_);
    const Tensor dx = project(du, false, heads);
    if (!gradient.weight.defined()) return dx;
    const Tensor ones = Tensor::full({1, x.size(2)}, x.dtype(), 1 / (root_ * root_));
    const Tensor dw = ops::matmul(gradient.weight.reshape({x.size(0), x.size(1), 1}), ones);
    return ops::add(dx, ops::multiply(dw, x));
  }

  // After omega has changed: [omega, -omega] of hyperbolic features.
  void refresh() {
    if (!hyperbolic_) return;
    const int64_t H = omega_.size(0), R = omega_.size(1), D = omega_.size(2);
    const Tensor both({2, H, R, D}, omega_.dtype());
    ops::copy_into(omega_, both.select(0));
    ops::copy_into(ops::scale(omega_, -1.0), both.select(1));
    mirrored_ = ops::permute(both, {{1, 2, H, R}, {0, 2, 1, 3}, D}, {H, 2 * R, D});
  }

 private:
  // Rows times omega^T / D^{1/4}, or, not `transposed`, omega / D^{1/4}.
  Tensor project(const Tensor& rows, bool transposed, const HeadRange& heads) const {
    return ops::head_matmul(rows, directions(), heads.first, transposed, 1 / root_,
                            takes_rounded());
  }

  // |x|^2 / (2 sqrt D) of each row, [BH,S]. As a factor of the product, 1 / (2 sqrt D) also keeps
  // the squares from being rounded to bf16 (FloatProducts::rounded): they are logs of weights.
  Tensor half_square_norms(const Tensor& x) const {
    const Tensor ones = Tensor::full({x.size(2), 1}, x.dtype(), 1);
    const double half = 0.5 / (root_ * root_);
    return ops::matmul(ops::multiply(x, x), ones, false, false, half)
        .reshape({x.size(0), x.size(1)});
  }

  const Tensor& directions() const { return hyperbolic_ ? mirrored_ : omega_; }

  bool hyperbolic_, trig_, relu_;  // none: positive
  Tensor omega_, mirrored_;
  double root_;  // D^{1/4}
};

class Performer final : public MappedAttention {
 public:
  explicit Performer(const AttentionOptions& options)
      : MappedAttention(options),
        projection_(parse_projection(options.settings.text("projection"))),
        redraw_(options.settings.integer("redraw")),
        omega_({options.heads, options.settings.integer("features"), options.key_size},
               options.dtype),
        features_(std::make_shared<RandomFeatures>(options.settings.text("feature"), omega_)) {
    set_map(features_);
    traits_.training_capturable = redraw_ == 0;
    draw_omega(0);
  }

  std::vector<Buffer> buffers() const override { return {{"omega", omega_}}; }
  // omega of a float run may initialize a bf16 run.
  void buffers_changed() override {
    if (is_rounded() && omega_.dtype() == DType::f32)
      ops::copy_into(ops::cast(ops::cast(omega_, DType::bf16), omega_.dtype()), omega_);
    features_->refresh();
  }

 private:
  void before_step(int64_t step, int64_t) override {
    if (redraw_ == 0 || step == 0 || step % redraw_ != 0) return;
    draw_omega(step);
  }

  // In f64, too: the reference of tests has the same omega.
  bool is_rounded() const {
    return features_->takes_rounded() && saved_dtype(DType::f32) == DType::bf16;
  }
  void draw_omega(int64_t step) const {
    draw(projection_, step, omega_, is_rounded());
    features_->refresh();
  }

  Projection projection_;
  int64_t redraw_;  // steps between draws
  Tensor omega_;
  std::shared_ptr<RandomFeatures> features_;
};

std::vector<Settings> performer_variants() {
  std::vector<Settings> result;
  for (const std::string& feature : kFeatures)
    result.push_back({{"feature", feature}, {"features", 16}});
  return result;
}

}  // namespace

AttentionEntry performer_entry() {
  using namespace declare;
  return {
      "performer",
      "linear attention with random features that estimate softmax (FAVOR+)",
      "Choromanski 2021",
      {labeled(choice("feature", "positive", kFeatures, "random feature of queries and keys")),
       labeled(integer("features", 64, {1, 65536}, "rows of omega in a head")),
       labeled_if_changed(defining(".omega", choice("projection", "orthogonal", projection_names(),
                                                    "distribution of the rows of omega"))),
       integer("redraw", 0, at_least(0), "steps between draws of omega; 0: never")},
      construct<Performer>,
      performer_variants(),
      /*cpu_only=*/false,
      {{"omega", "HRD", "features", false,
        "; default: sampled with --features, --projection and --seed"}}};
}

}  // namespace linea
