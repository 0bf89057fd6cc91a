#include "nn/verify/conformance.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "nn/verify/conformance_checks.h"

namespace linea {
namespace {

using namespace conformance;

// The claims, their bounds, and what measures them.
class Conformance {
 public:
  explicit Conformance(Subject subject) : subject_(std::move(subject)) {}

  std::vector<Check> all() {
    const bool state_grows = subject_.state_grows();
    measure({{"outputs = quadratic", 1e-9}, {"gradients = quadratic", 1e-9}},
            [&] { return forms(subject_); });
    measure({{"outputs, float", 1e-4}, {"gradients, float", 1e-3}},
            [&] { return single_precision(subject_, 257); });
    measure({{"gradients = differences", 1e-7}}, [&] { return differences(subject_); });
    measure({{"step = outputs", 1e-9}}, [&] { return recurrent(subject_, DType::f64); });
    measure({{"step = outputs, float", 1e-4}}, [&] { return recurrent(subject_, DType::f32); });
    measure({{"state growth, keys a position", state_grows ? 2.0 : 0.0}},
            [&] { return state_growth(subject_); });
    measure({{"causality: bits", 0}, {"causality: gradients", 0}},
            [&] { return causality(subject_); });
    measure({{"padding = quadratic", 1e-9}, {"padding = cut", 1e-9}},
            [&] { return padding(subject_); });
    measure({{"padding: bits", 0}, {"padding: gradients", 0}},
            [&] { return padded_values(subject_); });
    measure({{"other sequences", 1e-12}}, [&] { return independence(subject_); });
    measure({{"two runs: bits", 0}}, [&] { return determinism(subject_); });
    measure({{"large inputs, float", 1e-3}, {"large inputs: not finite", 0}},
            [&] { return large_inputs(subject_); });
    // A GPU does groups of chunks at once (cuda/chunk_sweep.h): what it keeps is constant from
    // longer lengths on.
    if (context().device.kind == DeviceKind::cpu)
      measure({{"memory, scalars a position", state_grows ? 8.0 + 2 * 64 : 8.0}},
              [&] { return memory(subject_); });
    if (!subject_.options.quick)
      measure({{"outputs, long, float", 1e-4},
               {"gradients, long, float", 1e-5},
               {"gate, parameters, long, float",
                3e-4}},  // sums that cancel: 1e-5 to 1.5e-4, by the order of a product
              [&] { return long_gradient(subject_); });
    return checks_;
  }

 private:
  struct Claim {
    std::string name;
    double bound;
  };

  // Runs `body`, which measures one number a claim, unless none of them is asked for.
  template <typename Body>
  void measure(const std::vector<Claim>& claims, const Body& body) {
    const auto asked = [&](const Claim& claim) {
      return claim.name.rfind(subject_.options.only, 0) == 0;
    };
    if (std::none_of(claims.begin(), claims.end(), asked)) return;
    std::vector<Worst> results;
    try {
      results = body();
    } catch (const Error& error) {
      results.assign(claims.size(), {std::numeric_limits<double>::quiet_NaN(), error.what()});
    }
    for (size_t i = 0; i < claims.size(); ++i) {
      if (!asked(claims[i])) continue;
      checks_.push_back({claims[i].name, results[i].value, claims[i].bound,
                         results[i].value <= claims[i].bound, results[i].where});
    }
  }

  Subject subject_;
  std::vector<Check> checks_;
};

}  // namespace

std::vector<Check> check_attention(const AttentionOptions& variant,
                                   const ConformanceOptions& options) {
  return check_attention(make_attention, variant, options);
}

std::vector<Check> check_attention(const AttentionFactory& make, const AttentionOptions& variant,
                                   const ConformanceOptions& options) {
  return Conformance({make, variant, options}).all();
}

}  // namespace linea
