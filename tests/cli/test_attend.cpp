// What linea attend computes: its three forms against the formulas, its gradients against central
// differences of these.
#include "tests/cli/attend_program.h"

namespace linea::attend_tests {
namespace {

// The largest difference, as a share of the largest number of `expected`.
double error_of(const Numbers& found, const Numbers& expected) {
  EXPECT_EQ(found.size(), expected.size());
  double worst = 0, largest = 1e-3;
  for (size_t i = 0; i < expected.size() && i < found.size(); ++i) {
    EXPECT_TRUE(std::isfinite(found[i])) << i;
    worst = std::max(worst, std::abs(found[i] - expected[i]));
    largest = std::max(largest, std::abs(expected[i]));
  }
  return worst / largest;
}

// d (dy . y) / d (in.name) by central differences.
Numbers differences(const Mechanism& m, Arrays in, bool causal, const std::string& name) {
  constexpr double kStep = 1e-5;
  const Numbers dy = in.at("dy").values;
  Numbers result;
  for (double& number : in.at(name).values) {
    const double before = number;
    double sides[2];
    for (int side = 0; side < 2; ++side) {
      number = before + (side == 0 ? kStep : -kStep);
      sides[side] = dot(dy.data(), formula(m, in, causal).data(), static_cast<int64_t>(dy.size()));
    }
    number = before;
    result.push_back((sides[0] - sides[1]) / (2 * kStep));
  }
  return result;
}

std::string direction(bool causal) { return causal ? " --causal" : ""; }

// The three forms against the formula, and the gradients of two of them against each other.
void check_forms(const Attend& test, const Mechanism& m) {
  const Arrays in = inputs_for(m);
  for (const bool causal : {true, false}) {
    if (!causal && m.causal_only()) continue;
    SCOPED_TRACE(m.flags() + direction(causal));
    const Numbers expected = formula(m, in, causal);
    const std::string flags = m.flags() + direction(causal), cut = " --segment 8 --chunk 4";
    const auto forms = [&](DType dtype, double bound, double gradient_bound) {
      const Arrays quadratic = test.attend(flags + " --form quadratic", in, dtype);
      const Arrays chunked = test.attend(flags + (dtype == DType::f64 ? cut : ""), in, dtype);
      EXPECT_LE(error_of(quadratic.at("y").values, expected), bound);
      EXPECT_LE(error_of(chunked.at("y").values, expected), bound);
      EXPECT_EQ(quadratic.size(), chunked.size());
      for (const auto& [name, array] : quadratic) {
        EXPECT_TRUE(array.shape == chunked.at(name).shape) << name;
        EXPECT_LE(error_of(chunked.at(name).values, array.values), gradient_bound) << name;
      }
      if (causal) {
        const Arrays recurrent = test.attend(flags + " --form recurrent", without(in, "dy"), dtype);
        EXPECT_LE(error_of(recurrent.at("y").values, expected), bound);
      }
    };
    forms(DType::f64, 1e-9, 1e-9);
    if (kSanitized) continue;  // floats go through the same kernels
    // A denominator of squares can be small, and its gradient steep.
    forms(DType::f32, 1e-4, m.feature == "square" ? 5e-3 : 1e-3);
  }
}

void check_gradients(const Attend& test, const Mechanism& m,
                     const std::vector<std::string>& names) {
  Sizes small;
  small.batch = 1, small.length = 7, small.key_size = 3, small.value_size = 2, small.rows = 5;
  const Arrays in = inputs_for(m, small);
  Mechanism differentiated = m;
  Arrays at = in;
  if (m.attention == "vq") {  // as if every key were its code
    differentiated.attention = "surrogate";
    Array& k = at.at("k");
    const Array& codes = in.at("codebook");
    for (int64_t row = 0; row < k.shape.numel() / 3; ++row) {
      const double* table = &codes.values[static_cast<size_t>(row / 7 * 5 * 3)];
      double* key = &k.values[static_cast<size_t>(row * 3)];
      std::copy_n(table + 3 * nearest_code(key, table, 5, 3), 3, key);
    }
  }
  for (const bool causal : {true, false}) {
    if (!causal && m.causal_only()) continue;
    SCOPED_TRACE(m.flags() + direction(causal));
    const Arrays out = test.attend(m.flags() + direction(causal) + " --segment 4 --chunk 2", in);
    for (const std::string& name : names)
      EXPECT_LE(error_of(out.at("d" + name).values, differences(differentiated, at, causal, name)),
                1e-7)
          << name;
    const size_t others = m.attention == "performer" ? 2 : 1;  // y, and omega
    EXPECT_EQ(out.size(), names.size() + others);
  }
}

TEST_F(Attend, SoftmaxAndSumsMatchTheFormula) {
  check_forms(*this, {"softmax", ""});
  for (const char* feature : {"elu", "relu", "exp", "square"})
    check_forms(*this, {"linear", feature});
  check_forms(*this, {"linear", "dpfp", "sum", 2});
}

TEST_F(Attend, RandomFeaturesMatchTheFormula) {
  for (const char* feature : {"positive", "hyperbolic", "trig", "relu"})
    check_forms(*this, {"performer", feature});
}

TEST_F(Attend, CodesMatchTheFormula) {
  check_forms(*this, {"vq", ""});
  check_forms(*this, {"soft-vq", ""});
}

TEST_F(Attend, RulesMatchTheFormula) {
  for (const char* rule : {"gated", "delta", "gated-delta"}) {
    for (const char* feature : {"elu", "relu", "exp"})
      check_forms(*this, {"linear", feature, rule});
    check_forms(*this, {"linear", "dpfp", rule, 2});
  }
}

TEST_F(Attend, LogDecaysMatchTheFormula) {
  for (const char* attention : {"gdn", "ssd", "retnet", "gla", "kda"})
    check_forms(*this, {attention, ""});
}

TEST_F(Attend, GradientsMatchDifferencesOfTheFormula) {
  check_gradients(*this, {"softmax", ""}, {"q", "k", "v"});
  check_gradients(*this, {"linear", "elu"}, {"q", "k", "v"});
  check_gradients(*this, {"performer", "positive"}, {"q", "k", "v"});
  check_gradients(*this, {"performer", "trig"}, {"q", "k", "v"});
  check_gradients(*this, {"soft-vq", ""}, {"q", "k", "v", "codebook", "sigma"});
  check_gradients(*this, {"vq", ""}, {"q", "k", "v"});
  check_gradients(*this, {"linear", "elu", "gated"}, {"q", "k", "v", "gate"});
  check_gradients(*this, {"linear", "elu", "delta"}, {"q", "k", "v", "beta"});
  check_gradients(*this, {"linear", "exp", "delta"}, {"q", "k", "v", "beta"});
  check_gradients(*this, {"linear", "elu", "gated-delta"}, {"q", "k", "v", "gates"});
  for (const char* attention : {"gdn", "ssd", "kda"})
    check_gradients(*this, {attention, ""}, {"q", "k", "v", "beta", "log_decay"});
  check_gradients(*this, {"gla", ""}, {"q", "k", "v", "log_decay"});
  check_gradients(*this, {"retnet", ""}, {"q", "k", "v"});
}

// f64 tables keep all their digits.
TEST_F(Attend, ComputesInDouble) {
  for (const Mechanism& m :
       {Mechanism{"performer", "positive"}, Mechanism{"vq", ""}, Mechanism{"soft-vq", ""}}) {
    Arrays in = inputs_for(m);
    for (auto& [name, array] : in)
      for (double& value : array.values) value *= 1 + 1e-9;
    EXPECT_LE(error_of(attend(m.flags(), in).at("y").values, formula(m, in, false)), 1e-12)
        << m.flags();
  }
}

// Logs of features differ by hundreds: float holds neither the features nor their products.
TEST_F(Attend, FormsAgreeAtLargeScales) {
  Sizes sizes;
  sizes.batch = sizes.heads = 1, sizes.length = 48, sizes.key_size = sizes.value_size = 8;
  sizes.rows = 32;
  const Mechanism mechanisms[] = {
      {"performer", "positive"},
      {"performer", "hyperbolic"},
      {"performer", "trig"},
      {"performer", "relu"},
      {"linear", "exp"},
      {"linear", "exp", "gated"},
      {"linear", "exp", "delta"},
      {"linear", "elu", "gated"},
      {"linear", "exp", "gated-delta"},
      {"linear", "elu"},
      {"linear", "square"},
      {"soft-vq", ""},
      {"linear", "elu", "delta"},
      {"vq", ""},
      {"softmax", ""},
  };
  for (size_t i = 0; i < std::size(mechanisms); i += kSanitized ? 4 : 1) {
    const Mechanism& m = mechanisms[i];
    SCOPED_TRACE(m.flags());
    Arrays in = inputs_for(m, sizes);
    for (const char* name : {"q", "k"})
      for (double& x : in.at(name).values) x = static_cast<float>(x * 12 / 0.7);
    const auto y = [&](const std::string& form, DType dtype) {
      return attend(m.flags() + " --causal --form " + form, without(in, "dy"), dtype)
          .at("y")
          .values;
    };
    const Numbers precise = y("chunked", DType::f64);
    EXPECT_LE(error_of(y("quadratic", DType::f64), precise), 1e-9);
    for (const char* form : {"quadratic", "chunked", "recurrent"})
      EXPECT_LE(error_of(y(form, DType::f32), precise), 1e-3) << form;
  }
}

// Each third gate is 0 or 1, or as near to them as float is.
Arrays with_extreme_gates(const Mechanism& m, const Sizes& sizes, double least, double most) {
  Arrays in = inputs_for(m, sizes);
  std::vector<double>& gates = in.at(m.gate()).values;
  for (size_t i = 0; i < gates.size(); i += 3)
    gates[i] = static_cast<float>(i % 2 == 0 ? least : most);
  return in;
}

TEST_F(Attend, GatesOfZeroAndOne) {
  Sizes small;
  small.batch = 1, small.length = 17, small.key_size = 3, small.value_size = 2;
  for (const std::string rule : {"gated", "delta", "gated-delta"})
    for (const std::string feature : {"elu", "exp"}) {
      if (kSanitized && feature == "exp") continue;
      const Mechanism m{"linear", feature, rule};
      SCOPED_TRACE(m.flags());
      const Arrays in = with_extreme_gates(m, small, 0, 1);
      const Numbers expected = formula(m, in, true);
      for (const char* form : {"quadratic", "chunked", "recurrent"})
        for (const DType dtype : {DType::f64, DType::f32})
          EXPECT_LE(
              error_of(attend(m.flags() + " --causal --form " + form, without(in, "dy"), dtype)
                           .at("y")
                           .values,
                       expected),
              dtype == DType::f64 ? 1e-12 : 1e-5)
              << form;
      for (const char* form : {"quadratic", "chunked"}) {
        const Arrays out = attend(m.flags() + " --causal --form " + form, in);
        for (const std::string& name : {std::string("q"), std::string("v"), m.gate()})
          EXPECT_LE(error_of(out.at("d" + name).values, differences(m, in, true, name)), 1e-7)
              << form << " d" << name;
      }
    }
}

TEST_F(Attend, GradientsOfGatesNearZeroAndOneInFloat) {
  for (const std::string rule : {"gated", "gated-delta"})
    for (const double least : {1e-8, 1e-30}) {
      const Mechanism m{"linear", "elu", rule};
      Arrays in = with_extreme_gates(m, {}, least, 1 - 1e-7);
      for (const char* form : {"quadratic", "chunked"}) {
        const std::string flags = m.flags() + " --causal --form " + form;
        EXPECT_LE(error_of(attend(flags, in, DType::f32).at("d" + m.gate()).values,
                           attend(flags, in).at("d" + m.gate()).values),
                  2e-5)
            << flags << least;
      }
    }
}

}  // namespace
}  // namespace linea::attend_tests
