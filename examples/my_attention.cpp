// Adds an attention of its own to the program: linear attention with phi(q) = exp(a q) and
// phi(k) = exp(b k). Every command then knows it:
//
//   my_attention train --preset digits-demo --attention scaled-exp --key-scale 2 --out RUN
//   my_attention train --attention scaled-exp --help
//   my_attention verify --attention scaled-exp
//   my_attention bench attention --attention linear,scaled-exp --query-scale 0.5
#include <linea/cli/program.h>
#include <linea/nn/attention/mapped_attention.h>
#include <linea/tensor/ops.h>

namespace {

using namespace linea;

// As logs, so that no exp overflows: log phi(x) = scale x.
class ScaledExpFeatures final : public FeatureMap {
 public:
  ScaledExpFeatures(double query_scale, double key_scale)
      : query_scale_(query_scale), key_scale_(key_scale) {}
  int64_t features(int64_t key_size) const override { return key_size; }
  FeatureKind kind() const override { return FeatureKind::logs; }
  Features forward(const Tensor& x, Side side, const HeadRange&) const override {
    return {ops::scale(x, scale(side))};
  }
  Tensor backward(const Tensor&, const Features&, const Features& gradient, Side side,
                  const HeadRange&, const std::vector<Tensor>&) const override {
    return ops::scale(gradient.rows, scale(side));
  }

 private:
  double scale(Side side) const { return side == Side::query ? query_scale_ : key_scale_; }
  double query_scale_, key_scale_;
};

class ScaledExpAttention final : public MappedAttention {
 public:
  explicit ScaledExpAttention(const AttentionOptions& options)
      : MappedAttention(options,
                        std::make_shared<ScaledExpFeatures>(options.settings.real("query_scale"),
                                                            options.settings.real("key_scale"))) {}
};

}  // namespace

int main(int argc, char** argv) {
  AttentionEntry entry;
  entry.name = "scaled-exp";
  entry.summary = "linear attention with features exp(a q) and exp(b k)";
  entry.source = "an example";
  entry.settings = {declare::positive("query_scale", 1, "a, the scale of queries"),
                    declare::positive("key_scale", 1, "b, the scale of keys")};
  entry.make = [](const AttentionOptions& options) {
    return std::make_unique<ScaledExpAttention>(options);
  };
  entry.variants = {{}, {{"query_scale", 0.5}, {"key_scale", 2.0}}};  // that `verify` checks
  register_attention(entry);
  return run_program(argc, argv);
}
