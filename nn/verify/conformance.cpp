#include "nn/verify/conformance.h"

#include <algorithm>
#include <limits>

#include "nn/verify/conformance_checks.h"

namespace linea {
namespace {

using namespace conformance;

struct Claim {
  std::string name;
  double bound;
};

// Claims, their bounds, and what measures one number for each.
struct Measurement {
  std::vector<Claim> claims;
  std::vector<Worst> (*measure)(const Subject&);
};

std::vector<Measurement> measurements(const Subject& subject) {
  const AttentionTraits& traits = subject.kind->traits();
  std::vector<Measurement> all = {
      {{{"outputs = quadratic", 1e-9}, {"gradients = quadratic", 1e-9}}, forms},
      {{{"outputs, float", 1e-4}, {"gradients, float", 1e-3}}, single_precision},
      {{{"gradients = differences", 1e-7}}, differences}};
  if (subject.is_causal())
    all.insert(all.end(), {{{{"step = outputs", 1e-9}},
                            [](const Subject& of) { return recurrent(of, DType::f64); }},
                           {{{"step = outputs, float", 1e-4}},
                            [](const Subject& of) { return recurrent(of, DType::f32); }},
                           {{{"state growth, keys a position", traits.state_growth}}, state_growth},
                           {{{"causality: bits", 0}, {"causality: gradients", 0}}, causality}});
  all.insert(all.end(),
             {{{{"padding = quadratic", 1e-9}, {"padding = cut", 1e-9}}, padding},
              {{{"padding: bits", 0}, {"padding: gradients", 0}}, padded_values},
              {{{"other sequences", 1e-12}}, independence},
              {{{"two runs: bits", 0}}, determinism},
              {{{"large inputs, float", 1e-3}, {"large inputs: not finite", 0}}, large_inputs}});
  // A GPU does groups of chunks at once (cuda/chunk_sweep.h): what it keeps is constant from
  // longer lengths on.
  if (context().device.kind == DeviceKind::cpu)
    all.push_back({{{"memory, scalars a position",
                     subject.make_attention(kMemorySizes, DType::f32)->traits().saved_scalars}},
                   memory});
  if (!subject.options.quick)  // the last: sums that cancel, 1e-5 to 1.5e-4 by a product's order
    all.push_back({{{"outputs, long, float", 1e-4},
                    {"gradients, long, float", 1e-5},
                    {"gate, parameters, long, float", 3e-4}},
                   long_gradient});
  return all;
}

}  // namespace

std::vector<Check> check_attention(const AttentionOptions& variant,
                                   const ConformanceOptions& options) {
  const Subject subject{options.make, variant, options};
  const Scoped<bool> draws(draws_saved_inputs, options.saved_inputs);
  std::vector<Check> checks;
  const auto asked = [&](const Claim& claim) { return claim.name.rfind(options.only, 0) == 0; };
  for (const auto& [claims, measure] : measurements(subject)) {
    if (std::none_of(claims.begin(), claims.end(), asked)) continue;
    std::vector<Worst> results;
    try {
      results = measure(subject);
    } catch (const Error& error) {
      results.assign(claims.size(), {std::numeric_limits<double>::quiet_NaN(), error.what()});
    }
    for (size_t i = 0; i < claims.size(); ++i) {
      const auto& [name, bound] = claims[i];
      const auto& [value, where] = results[i];
      if (asked(claims[i])) checks.push_back({name, value, bound, value <= bound, where});
    }
  }
  return checks;
}

}  // namespace linea
