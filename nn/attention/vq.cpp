// Transformer-VQ (Lingle 2023): a_ij = exp(q_i.k^_j), k^_j = c_{z_j}, z_j = argmin_f |k_j - c_f|^2;
// the sum rule with a one-hot feature of each key. No 1 / sqrt(D).
//
// dk is the gradient of k^, straight through. The codes are exponential means of their keys (van
// den Oord 2017, appendix A.1) or follow the gradient of |sg(k) - c_z|^2; the loss beta |k -
// sg(c_z)|^2 moves the keys towards them. A code with few keys is replaced by a key of the batch.
#include <cmath>
#include <numeric>

#include "autograd/ops.h"
#include "autograd/rules/naive_tools.h"
#include "autograd/sequence_part.h"
#include "nn/attention/builtin.h"
#include "nn/attention/mapped_attention.h"
#include "nn/attention/parts.h"
#include "nn/over_ranks.h"
#include "tensor/context.h"

namespace linea {
namespace {

constexpr double kDecay = 0.95;  // of the means
constexpr double kDead =
    0.2;  // a code with less than this share of the mean number of keys is dead

class CodeFeatures final : public FeatureMap {
 public:
  explicit CodeFeatures(Tensor codebook) : codebook_(std::move(codebook)) {}

  int64_t features(int64_t) const override { return codebook_.size(1); }
  FeatureKind kind() const override { return FeatureKind::logs; }
  bool straight_through() const override { return true; }

  Features forward(const Tensor& x, Side side, const HeadRange& heads) const override {
    if (side == Side::query) return {ops::head_matmul(x, codebook_, heads.first, true), {}, {}};
    const Tensor codes = ops::nearest_code(x, codebook_, heads.first);
    return {ops::one_hot_logs(codes, codebook_.size(1), x.dtype()), {}, codes};
  }
  Tensor backward(const Tensor&, const Features&, const Features& gradient, Side side,
                  const HeadRange& heads, const std::vector<Tensor>&) const override {
    require(side == Side::query,
            "vq: a key's gradient passes straight through, not through its code");
    return ops::head_matmul(gradient.rows, codebook_, heads.first, false);
  }

 private:
  Tensor codebook_;
};

class Vq final : public MappedAttention {
 public:
  explicit Vq(const AttentionOptions& options)
      : MappedAttention(options),
        codes_(options.settings.integer("codes")),
        commitment_(options.settings.real("commitment")),
        learns_(options.settings.text("codebook") == "gradient") {
    const Tensor codes({options.heads, codes_, options.key_size}, options.dtype);
    draw(Projection::iid, 0, codes);
    codebook_ = Var(codes, learns_);
    counts_ = Tensor::zeros({options.heads, codes_}, options.dtype);
    sums_ = Tensor::zeros(codes.shape(), options.dtype);
    set_map(std::make_shared<CodeFeatures>(codes));
    traits_.recomputable = traits_.training_capturable = false;  // the host counts its codes
    traits_.scale_from_softmax = 1 / std::sqrt(static_cast<double>(options.key_size));
  }

  // softmax(q.k^), k^ with the gradient of k.
  Var quadratic(const AttentionInputs& in, const AttentionMask& mask) const override {
    const Var scores = matmul(in.q, quantize(in.k, codebook_.value()), false, true);
    return naive::softmax_attention(scores, in.v, mask);
  }

  Parameters parameters() const override {
    return learns_ ? Parameters{{"codebook", codebook_}} : Parameters{};
  }
  std::vector<Buffer> buffers() const override {
    if (learns_) return {{"codebook_counts", counts_}};
    return {
        {"codebook_counts", counts_}, {"codebook", codebook_.value()}, {"codebook_sums", sums_}};
  }

  // A codebook learned by gradients has counts but no sums: they follow from the codes.
  void buffers_changed() override {
    std::vector<double> sums = sums_.to_doubles();
    if (std::any_of(sums.begin(), sums.end(), [](double x) { return x != 0; })) return;
    const std::vector<double> counts = counts_.to_doubles(), codes = codebook_.value().to_doubles();
    for (size_t i = 0; i < sums.size(); ++i)
      sums[i] = counts[i / static_cast<size_t>(options_.key_size)] * codes[i];
    write_values(sums, sums_);
  }

  void before_step(int64_t step, int64_t) override { step_ = step; }

  // Also counts the keys of each code, for after_step.
  Var auxiliary_loss(const AttentionInputs& in, const AttentionMask& mask) override {
    const Commitment commitment = commitment_loss(in.k, codebook_, commitment_, mask.valid);
    add_to(batch_counts_, commitment.counts);
    add_to(batch_sums_, commitment.sums);
    draw_candidates(in.k.value(), mask);
    return commitment.loss;
  }

  void skip_step() override {
    batch_counts_.clear();
    batch_sums_.clear();
    candidates_.clear();
  }

  void after_step() override {
    if (batch_counts_.empty()) return;
    for (std::vector<double>* values : {&batch_counts_, &batch_sums_, &candidates_})
      add_over_ranks(*values);
    const size_t codes = static_cast<size_t>(counts_.numel()),
                 D = static_cast<size_t>(options_.key_size);
    measure_usage(batch_counts_);
    revived_ = 0;
    std::vector<double> mean_counts = updated_mean(counts_, batch_counts_),
                        mean_sums = updated_mean(sums_, batch_sums_);
    std::vector<double> codebook = codebook_.value().to_doubles();
    const double equal =
        std::accumulate(mean_counts.begin(), mean_counts.end(), 0.0) / static_cast<double>(codes);
    for (size_t code = 0; code < codes; ++code) {
      const bool dead = mean_counts[code] < kDead * equal;
      if (dead) mean_counts[code] = equal;
      for (size_t d = 0; d < D; ++d) {
        const size_t at = code * D + d;
        if (dead) mean_sums[at] = equal * candidates_[at];
        if (dead || !learns_) codebook[at] = mean_sums[at] / mean_counts[code];
      }
      revived_ += dead ? 1 : 0;
    }
    write_values(mean_counts, counts_);
    write_values(mean_sums, sums_);
    write_values(codebook, codebook_.value());
    skip_step();
  }

  std::vector<std::pair<std::string, double>> statistics() const override {
    return {{"vq_usage", usage_},
            {"vq_entropy", entropy_},
            {"vq_revived", static_cast<double>(revived_)}};
  }

 private:
  // A key of the step for every code, should it be dead; 0 where the step's other batches have it.
  void draw_candidates(const Tensor& keys, const AttentionMask& mask) {
    const int64_t H = options_.heads, F = codes_, D = options_.key_size, S = keys.size(2);
    const StepRows& own = context().rows;
    const SequencePart* const part = sequence_part();
    const int64_t all_rows = own.all == 0 ? keys.size(0) : own.all;
    const int64_t first_row = part == nullptr ? 0 : part->first();
    const std::vector<double> all = keys.to_doubles();
    std::vector<int32_t> valid = mask.lengths(keys.size(0), part == nullptr ? S : part->length());
    if (part != nullptr && !part->lengths.empty()) valid = part->lengths;
    candidates_.resize(static_cast<size_t>(H * F * D));
    for (int64_t head = 0; head < H; ++head) {
      const RandomStream stream = random_stream(head, step_ + 1);
      for (int64_t f = 0; f < F; ++f) {
        const auto index = static_cast<uint64_t>(2 * f);
        const int64_t b = random_below(stream, index, static_cast<uint32_t>(all_rows)) - own.first;
        if (b < 0 || b >= keys.size(0)) continue;
        const auto rows = static_cast<uint32_t>(std::max(valid[static_cast<size_t>(b)], 1));
        const int64_t bh = b * H + head, row = random_below(stream, index + 1, rows) - first_row;
        if (row < 0 || row >= S) continue;
        std::copy_n(all.begin() + (bh * S + row) * D, D, candidates_.begin() + (head * F + f) * D);
      }
    }
  }

  static void add_to(std::vector<double>& sums, const Tensor& batch) {
    const std::vector<double> values = batch.to_doubles();
    sums.resize(values.size());
    for (size_t i = 0; i < sums.size(); ++i) sums[i] += values[i];
  }
  // decay mean + (1 - decay) fresh; the first fresh ones as they are
  static std::vector<double> updated_mean(const Tensor& mean, const std::vector<double>& fresh) {
    std::vector<double> result = mean.to_doubles();
    const bool first = std::all_of(result.begin(), result.end(), [](double x) { return x == 0; });
    for (size_t i = 0; i < result.size(); ++i)
      result[i] = first ? fresh[i] : kDecay * result[i] + (1 - kDecay) * fresh[i];
    return result;
  }

  // The share of codes that some key chose, and the entropy of the choice in nats, the mean over
  // heads.
  void measure_usage(const std::vector<double>& counts) {
    const size_t H = static_cast<size_t>(options_.heads), F = static_cast<size_t>(codes_);
    usage_ = entropy_ = 0;
    for (size_t head = 0; head < H; ++head) {
      const double* of_head = counts.data() + head * F;
      const double all = std::accumulate(of_head, of_head + F, 0.0);
      for (size_t f = 0; f < F; ++f) {
        const double share = of_head[f] / all;
        if (share == 0) continue;
        usage_ += 1.0 / static_cast<double>(H * F);
        entropy_ -= share * std::log(share) / static_cast<double>(H);
      }
    }
  }

  int64_t codes_;
  double commitment_;  // beta
  bool learns_;        // codes by gradients, not by means
  Var codebook_;
  Tensor counts_, sums_;  // exponential means of each code's keys
  int64_t step_ = 0;
  std::vector<double> batch_counts_, batch_sums_;  // of the batches of a step, empty before them
  std::vector<double> candidates_;
  double usage_ = 0, entropy_ = 0;  // of the last step, and the codes that it revived
  int64_t revived_ = 0;
};

}  // namespace

AttentionEntry vq_entry() {
  using namespace declare;
  return {
      "vq",
      "vector quantization of keys (Transformer-VQ)",
      "Lingle 2023",
      {labeled(integer("codes", 64, {1, 65536}, "codes of a head")),
       of_model(choice("codebook", "ema", {"ema", "gradient"}, "how codes move")),
       real("commitment", 0.01, at_least(0), "weight of the loss that pulls keys to their codes")},
      construct<Vq>,
      {{{"codes", 16}}},
      /*cpu_only=*/false,
      {{"codebook", "HFD", "codes", true}}};
}

}  // namespace linea
