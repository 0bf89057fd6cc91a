// Soft vector quantization, the Gaussian mixture form of Transformer-VQ (Su 2023,
// kexue.fm/archives/9844):
//
//   a_ij = sum_f exp(q_i.c_f) p(f | k_j),   p(f | k) = softmax_f(-|k - c_f|^2 / (2 sigma^2))
//
// codes c [H,F,D] and sigma [1] trained by gradients. As logs: of a query q.c_f, of a key
// log softmax_f((k.c_f - |c_f|^2 / 2) / t), t = sigma^2 times a temperature that training can move
// from 1 towards 0 (`anneal`), where a soft code becomes a hard one. No 1 / sqrt(D).
#include <cmath>

#include "nn/attention/builtin.h"
#include "nn/attention/mapped_attention.h"
#include "nn/attention/parts.h"
#include "tensor/launch.h"

namespace linea {
namespace {

class MixtureFeatures final : public FeatureMap {
 public:
  MixtureFeatures(Var codebook, Var sigma, Tensor temperature)
      : codebook_(std::move(codebook)),
        sigma_(std::move(sigma)),
        temperature_(std::move(temperature)) {}

  int64_t features(int64_t) const override { return codebook_.size(1); }
  FeatureKind kind() const override { return FeatureKind::logs; }
  std::vector<Var> parameters() const override { return {codebook_, sigma_}; }

  Features forward(const Tensor& x, Side side, const HeadRange& heads) const override {
    const Tensor& codes = codebook_.value();
    const Tensor u = ops::head_matmul(x, codes, heads.first, true);
    if (side == Side::query) return {u, {}, {}};
    LINEA_LAUNCH(mixture_logs, x.dtype(), head_shape(x, heads), codes, width(), u);
    return {u, {}, {}};
  }

  // du of a key overwrites what its logs get; then both sides alike: dx = du c, dc = du^T x (of
  // keys, less c sum du, from -|c|^2 / 2).
  Tensor backward(const Tensor& x, const Features& features, const Features& gradient, Side side,
                  const HeadRange& heads, const std::vector<Tensor>& gradients) const override {
    const Tensor& codes = codebook_.value();
    const bool key = side == Side::key;
    const Tensor du = key ? gradient.rows.clone() : gradient.rows;
    if (key) {
      const Tensor dt = Tensor::zeros({x.size(0)}, x.dtype());
      LINEA_LAUNCH(mixture_logs_backward, x.dtype(), head_shape(x, heads), width(), features.rows,
                   du, dt);
      if (gradients[1].defined()) {  // t = temperature sigma^2
        const Tensor grad = ops::scale(ops::multiply(temperature_, sigma_.value()), 2);
        ops::accumulate(ops::multiply(ops::sum_rows(dt.reshape({dt.numel(), 1}), {1}), grad),
                        gradients[1]);
      }
    }
    if (gradients[0].defined())
      LINEA_LAUNCH(add_to_heads, x.dtype(), head_shape(x, heads), ops::matmul(du, x, true, false),
                   ops::data_or_null(key ? du : Tensor()), codes, gradients[0]);
    return ops::head_matmul(du, codes, heads.first, false);
  }

 private:
  HeadShape head_shape(const Tensor& x, const HeadRange& heads) const {
    return {x.size(0), x.size(1), codebook_.size(1), x.size(2), heads.first, heads.heads};
  }
  Tensor width() const {
    return ops::multiply(ops::multiply(sigma_.value(), sigma_.value()), temperature_);
  }

  Var codebook_, sigma_;
  Tensor temperature_;
};

class SoftVq final : public MappedAttention {
 public:
  explicit SoftVq(const AttentionOptions& options)
      : MappedAttention(options), anneal_(options.settings.real("anneal")) {
    const Tensor codes({options.heads, options.settings.integer("codes"), options.key_size},
                       options.dtype);
    draw(Projection::fixed_norm, 0, codes);
    codebook_ = Var(codes, true);
    sigma_ = Var(Tensor::full({1}, options.dtype, options.settings.real("sigma")), true);
    temperature_ = Tensor::full({1}, options.dtype, 1.0);
    set_map(std::make_shared<MixtureFeatures>(codebook_, sigma_, temperature_));
    traits_.scale_from_softmax = 1 / std::sqrt(static_cast<double>(options.key_size));
  }

  Parameters parameters() const override { return {{"codebook", codebook_}, {"sigma", sigma_}}; }
  std::vector<Buffer> buffers() const override { return {{"temperature", temperature_}}; }

 private:
  void before_step(int64_t step, int64_t steps) override {
    const int64_t last = std::max<int64_t>(steps - 1, 1);
    const double share = static_cast<double>(std::min(step, last)) / static_cast<double>(last);
    write_values({std::pow(anneal_, share)}, temperature_);
  }

  double anneal_;
  Var codebook_, sigma_;
  Tensor temperature_;
};

}  // namespace

AttentionEntry soft_vq_entry() {
  using namespace declare;
  return {"soft-vq",
          "soft vector quantization of keys, a mixture of Gaussians",
          "Su 2023",
          {labeled(integer("codes", 64, {1, 65536}, "codes of a head")),
           of_model(positive("sigma", 1, "standard deviation of a code at the start of training")),
           positive("anneal", 1, "temperature at the end of training, from 1 at its start")},
          construct<SoftVq>,
          {{{"codes", 16}}},
          /*cpu_only=*/false,
          {{"codebook", "HFD", "codes", true}, {"sigma", "1", "sigma", false, ", or --sigma"}}};
}

}  // namespace linea
