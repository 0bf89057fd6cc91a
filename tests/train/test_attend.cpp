// linea attend against the formulas themselves: plain loops in double that share nothing with the library;
// gradients against central differences of these. And what is refused, which leaves no file.
#include <map>

#include "data/safetensors.h"
#include "tensor/random.h"
#include "tests/train/program.h"

namespace linea {
namespace {

using Numbers = std::vector<double>;

struct Array {
  Shape shape;
  Numbers values;
};
using Arrays = std::map<std::string, Array>;

struct Sizes {
  int64_t batch = 2, heads = 2, length = 19, key_size = 4, value_size = 3, rows = 6;  // rows of omega or codebook
};

struct Mechanism {
  std::string attention, feature, rule = "sum";
  int nu = 1;
  std::string flags() const {
    return " --attention " + attention + (feature.empty() ? "" : " --feature " + feature) +
           (rule == "sum" ? "" : " --rule " + rule) + (nu == 1 ? "" : " --nu " + std::to_string(nu));
  }
  std::string gate() const { return rule == "gated" ? "gate" : rule == "delta" ? "beta" : ""; }
  bool causal_only() const { return rule != "sum"; }
  bool both_codes() const { return attention == "vq" || attention == "soft-vq"; }
};

// ------------------------------------------------------------------------------------------- the formulas

double dot(const double* a, const double* b, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

double square_distance(const double* a, const double* b, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return sum;
}

double relu(double x) {
  return x > 0 ? x : 0;
}

// phi of linear; of square it stands in weight().
Numbers linear_features(const Mechanism& m, const double* x, int64_t D) {
  Numbers phi;
  if (m.feature == "dpfp") {
    Numbers r;
    for (int64_t d = 0; d < D; ++d) r.push_back(relu(x[d]));
    for (int64_t d = 0; d < D; ++d) r.push_back(relu(-x[d]));
    for (size_t b = 1; b <= static_cast<size_t>(m.nu); ++b)
      for (size_t a = 0; a < r.size(); ++a) phi.push_back(r[a] * r[(a + b) % r.size()]);
    return phi;
  }
  for (int64_t d = 0; d < D; ++d)
    phi.push_back(m.feature == "relu"  ? relu(x[d]) + 1e-3
                  : m.feature == "exp" ? std::exp(x[d])
                  : x[d] >= 0          ? x[d] + 1
                                       : std::exp(x[d]));
  return phi;
}

Numbers random_features(const Mechanism& m, const double* x, const double* omega, int64_t R, int64_t D) {
  const double root = std::pow(static_cast<double>(D), 0.25);
  Numbers scaled(x, x + D), phi, second;
  for (double& number : scaled) number /= root;
  const double half = dot(scaled.data(), scaled.data(), D) / 2, rows = static_cast<double>(R);
  for (int64_t r = 0; r < R; ++r) {
    const double u = dot(omega + r * D, scaled.data(), D);
    if (m.feature == "relu") phi.push_back(relu(u) + 1e-3);
    if (m.feature == "positive") phi.push_back(std::exp(u - half) / std::sqrt(rows));
    if (m.feature == "hyperbolic") {
      phi.push_back(std::exp(-half) * std::exp(u) / std::sqrt(2 * rows));
      second.push_back(std::exp(-half) * std::exp(-u) / std::sqrt(2 * rows));
    }
    if (m.feature == "trig") {
      phi.push_back(std::exp(half) * std::sin(u) / std::sqrt(rows));
      second.push_back(std::exp(half) * std::cos(u) / std::sqrt(rows));
    }
  }
  phi.insert(phi.end(), second.begin(), second.end());
  return phi;
}

int64_t nearest_code(const double* k, const double* codes, int64_t F, int64_t D) {
  int64_t best = 0;
  for (int64_t f = 1; f < F; ++f)
    if (square_distance(k, codes + f * D, D) < square_distance(k, codes + best * D, D)) best = f;
  return best;
}

// a_ij of a query and a key of one head; `table` is that head's omega or codebook.
double weight(const Mechanism& m, const double* q, const double* k, const double* table, int64_t F, int64_t D,
              double sigma) {
  if (m.attention == "softmax") return std::exp(dot(q, k, D) / std::sqrt(static_cast<double>(D)));
  if (m.attention == "surrogate") return std::exp(dot(q, k, D));  // of vq: k is the code itself
  if (m.attention == "vq") return std::exp(dot(q, table + nearest_code(k, table, F, D) * D, D));
  if (m.attention == "soft-vq") {
    double all = 0, sum = 0;
    for (int64_t f = 0; f < F; ++f) {
      const double p = std::exp(-square_distance(k, table + f * D, D) / (2 * sigma * sigma));
      all += p;
      sum += p * std::exp(dot(q, table + f * D, D));
    }
    return sum / all;
  }
  if (m.feature == "square") return dot(q, k, D) * dot(q, k, D);
  const bool random = m.attention == "performer";
  const Numbers a = random ? random_features(m, q, table, F, D) : linear_features(m, q, D);
  const Numbers b = random ? random_features(m, k, table, F, D) : linear_features(m, k, D);
  return dot(a.data(), b.data(), static_cast<int64_t>(a.size()));
}

// The recurrences of the gated and the delta rule for one (batch, head).
void by_rule(const Mechanism& m, const double* q, const double* k, const double* v, const double* gate, int64_t N,
             int64_t D, int64_t M, double* y) {
  Numbers S, z;
  for (int64_t n = 0; n < N; ++n) {
    Numbers a = linear_features(m, q + n * D, D), b = linear_features(m, k + n * D, D);
    const size_t F = a.size(), width = static_cast<size_t>(M);
    S.resize(F * width), z.resize(F);
    if (m.rule == "delta") {
      double sum_a = 0, sum_b = 0;
      for (size_t f = 0; f < F; ++f) sum_a += a[f], sum_b += b[f];
      for (size_t f = 0; f < F; ++f) {
        a[f] = sum_a == 0 ? 0 : a[f] / sum_a;
        b[f] = sum_b == 0 ? 0 : b[f] / sum_b;
      }
    }
    for (size_t j = 0; j < width; ++j) {
      double held = 0;
      for (size_t f = 0; f < F; ++f) held += S[f * width + j] * b[f];
      const double value = v[n * M + static_cast<int64_t>(j)];
      for (size_t f = 0; f < F; ++f) {
        double& s = S[f * width + j];
        s = m.rule == "delta" ? s + b[f] * gate[n] * (value - held) : gate[n] * s + (1 - gate[n]) * b[f] * value;
      }
    }
    for (size_t f = 0; f < F; ++f) z[f] = gate[n] * z[f] + (1 - gate[n]) * b[f];
    const double all = m.rule == "delta" ? 1 : dot(z.data(), a.data(), static_cast<int64_t>(F));
    for (size_t j = 0; j < width; ++j) {
      double read = 0;
      for (size_t f = 0; f < F; ++f) read += S[f * width + j] * a[f];
      y[n * M + static_cast<int64_t>(j)] = all == 0 ? 0 : read / all;
    }
  }
}

Numbers formula(const Mechanism& m, const Arrays& in, bool causal) {
  const Shape& shape = in.at("q").shape;
  const int64_t H = shape[1], N = shape[2], D = shape[3], M = in.at("v").shape[3];
  const std::string table = m.attention == "performer" ? "omega" : m.both_codes() ? "codebook" : "";
  const int64_t F = table.empty() ? 0 : in.at(table).shape[1];
  const double sigma = in.count("sigma") != 0 ? in.at("sigma").values[0] : 1;
  Numbers y(in.at("v").values.size());
  for (int64_t pair = 0; pair < shape[0] * H; ++pair) {
    const double *q = &in.at("q").values[static_cast<size_t>(pair * N * D)],
                 *k = &in.at("k").values[static_cast<size_t>(pair * N * D)],
                 *v = &in.at("v").values[static_cast<size_t>(pair * N * M)];
    double* out = &y[static_cast<size_t>(pair * N * M)];
    if (m.rule != "sum") {
      by_rule(m, q, k, v, &in.at(m.gate()).values[static_cast<size_t>(pair * N)], N, D, M, out);
      continue;
    }
    const double* rows = table.empty() ? nullptr : &in.at(table).values[static_cast<size_t>(pair % H * F * D)];
    for (int64_t i = 0; i < N; ++i) {
      double all = 0;
      for (int64_t j = 0; j < (causal ? i + 1 : N); ++j) {
        const double a = weight(m, q + i * D, k + j * D, rows, F, D, sigma);
        all += a;
        for (int64_t c = 0; c < M; ++c) out[i * M + c] += a * v[j * M + c];
      }
      for (int64_t c = 0; c < M; ++c) out[i * M + c] = all == 0 ? 0 : out[i * M + c] / all;
    }
  }
  return y;
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

// ------------------------------------------------------------------------------------------- inputs, runs

// The same numbers in f32 and f64.
Array normal(const Shape& shape, uint32_t lane, double deviation = 1) {
  Array result{shape, {}};
  for (int64_t i = 0; i < shape.numel(); ++i)
    result.values.push_back(
        static_cast<float>(deviation * random_normal({7, Purpose::test, lane, 0}, static_cast<uint64_t>(i))));
  return result;
}

// What the mechanism needs, with dy.
Arrays inputs_for(const Mechanism& m, const Sizes& s = {}) {
  const Shape keys{s.batch, s.heads, s.length, s.key_size}, values = keys.with(-1, s.value_size);
  const Shape rows{s.heads, s.rows, s.key_size};
  Arrays in = {{"q", normal(keys, 1, 0.7)},
               {"k", normal(keys, 2, 0.7)},
               {"v", normal(values, 3)},
               {"dy", normal(values, 4)}};
  if (m.attention == "performer") in["omega"] = normal(rows, 5);
  if (m.both_codes()) in["codebook"] = normal(rows, 6, 0.8);
  if (m.attention == "soft-vq") in["sigma"] = {{1}, {0.8125}};
  if (!m.gate().empty()) {
    Array gate = normal({s.batch, s.heads, s.length}, 7);
    for (double& g : gate.values) g = static_cast<float>(1 / (1 + std::exp(-1 - g)));
    in[m.gate()] = gate;
  }
  return in;
}

Arrays without(Arrays arrays, const std::string& name) {
  arrays.erase(name);
  return arrays;
}

Tensor tensor_of(const Array& array, DType dtype) {
  if (dtype == DType::f64) return Tensor::from(array.values, array.shape);
  return Tensor::from(std::vector<float>(array.values.begin(), array.values.end()), array.shape);
}

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

class Attend : public ProgramTest {
 protected:
  // Not by the library's writer, which waits for the disk: there are hundreds of these.
  void save(const std::string& name, const Arrays& arrays, DType dtype = DType::f64) const {
    std::vector<SafetensorsEntry> entries;
    std::string bytes;
    for (const auto& [key, array] : arrays) {
      const Tensor tensor = tensor_of(array, dtype);
      const size_t begin = bytes.size();
      bytes.resize(begin + tensor.bytes());
      if (tensor.bytes() > 0) tensor.read(&bytes[begin]);
      entries.push_back({key, dtype == DType::f64 ? "F64" : "F32", array.shape.sizes(), begin, bytes.size()});
    }
    const std::string header = format_safetensors_header(entries, {});
    std::ofstream file(path(name), std::ios::binary);
    for (int byte = 0; byte < 8; ++byte) file.put(static_cast<char>(header.size() >> (8 * byte)));
    file << header << bytes;
  }

  // What --out holds; its tensors are all of this dtype.
  Arrays load(const std::string& name, DType dtype = DType::f64) const {
    Arrays result;
    const SafetensorsFile file = SafetensorsFile::open(path(name));
    for (const SafetensorsEntry& entry : file.entries()) {
      const Tensor tensor = file.read(entry.name);
      EXPECT_EQ(tensor.dtype(), dtype) << entry.name;
      result[entry.name] = {tensor.shape(), tensor.to_doubles()};
    }
    return result;
  }

  Arrays attend(const std::string& flags, const Arrays& in, DType dtype = DType::f64) const {
    save("in.safetensors", in, dtype);
    const Outcome outcome = done("attend --in in.safetensors --out out.safetensors" + flags);
    EXPECT_EQ(outcome.err, "");
    return load("out.safetensors", dtype);
  }

  static std::string direction(bool causal) { return causal ? " --causal" : ""; }

  // The three forms against the formula, and the gradients of two of them against each other.
  void check_forms(const Mechanism& m) const {
    const Arrays in = inputs_for(m);
    for (const bool causal : {true, false}) {
      if (!causal && m.causal_only()) continue;
      SCOPED_TRACE(m.flags() + direction(causal));
      const Numbers expected = formula(m, in, causal);
      const std::string flags = m.flags() + direction(causal), cut = " --segment 8 --chunk 4";
      const auto forms = [&](DType dtype, double bound, double gradient_bound) {
        const Arrays quadratic = attend(flags + " --form quadratic", in, dtype);
        const Arrays chunked = attend(flags + (dtype == DType::f64 ? cut : ""), in, dtype);
        EXPECT_LE(error_of(quadratic.at("y").values, expected), bound);
        EXPECT_LE(error_of(chunked.at("y").values, expected), bound);
        EXPECT_EQ(quadratic.size(), chunked.size());
        for (const auto& [name, array] : quadratic) {
          EXPECT_TRUE(array.shape == chunked.at(name).shape) << name;
          EXPECT_LE(error_of(chunked.at(name).values, array.values), gradient_bound) << name;
        }
        if (causal) {
          const Arrays recurrent = attend(flags + " --form recurrent", without(in, "dy"), dtype);
          EXPECT_LE(error_of(recurrent.at("y").values, expected), bound);
        }
      };
      forms(DType::f64, 1e-9, 1e-9);
      forms(DType::f32, 1e-4, 1e-3);
    }
  }

  void check_gradients(const Mechanism& m, const std::vector<std::string>& names) const {
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
      const Arrays out = attend(m.flags() + direction(causal) + " --segment 4 --chunk 2", in);
      for (const std::string& name : names)
        EXPECT_LE(error_of(out.at("d" + name).values, differences(differentiated, at, causal, name)), 1e-7)
            << name;
      const size_t others = m.attention == "performer" ? 2 : 1;  // y, and omega
      EXPECT_EQ(out.size(), names.size() + others);
    }
  }

  // Refused with one line, and no file.
  void bad(int code, const std::string& flags, const Arrays& in,
           std::initializer_list<std::string> fragments) const {
    save("bad.safetensors", in);
    bad_file(code, flags, fragments);
  }
  void bad_file(int code, const std::string& flags, std::initializer_list<std::string> fragments) const {
    refused(code, "attend --in bad.safetensors --out none.safetensors" + flags, fragments);
    const Words names = names_in("");
    for (const std::string& name : names)
      EXPECT_TRUE(name.rfind("none", 0) != 0 && name.rfind(".tmp", 0) != 0) << name;
  }
};

// ------------------------------------------------------------------------------------------- what is right

TEST_F(Attend, SoftmaxAndSumsAreTheFormula) {
  check_forms({"softmax", ""});
  for (const char* feature : {"elu", "relu", "exp", "square"}) check_forms({"linear", feature});
  check_forms({"linear", "dpfp", "sum", 2});
}

TEST_F(Attend, RandomFeaturesAreTheFormula) {
  for (const char* feature : {"positive", "hyperbolic", "trig", "relu"}) check_forms({"performer", feature});
}

TEST_F(Attend, CodesAreTheFormula) {
  check_forms({"vq", ""});
  check_forms({"soft-vq", ""});
}

TEST_F(Attend, RulesAreTheFormula) {
  for (const char* rule : {"gated", "delta"}) {
    for (const char* feature : {"elu", "relu", "exp"}) check_forms({"linear", feature, rule});
    check_forms({"linear", "dpfp", rule, 2});
  }
}

TEST_F(Attend, GradientsAreDifferencesOfTheFormula) {
  check_gradients({"softmax", ""}, {"q", "k", "v"});
  check_gradients({"linear", "elu"}, {"q", "k", "v"});
  check_gradients({"performer", "positive"}, {"q", "k", "v"});
  check_gradients({"performer", "trig"}, {"q", "k", "v"});
  check_gradients({"soft-vq", ""}, {"q", "k", "v", "codebook", "sigma"});
  check_gradients({"vq", ""}, {"q", "k", "v"});
  check_gradients({"linear", "elu", "gated"}, {"q", "k", "v", "gate"});
  check_gradients({"linear", "elu", "delta"}, {"q", "k", "v", "beta"});
  check_gradients({"linear", "exp", "delta"}, {"q", "k", "v", "beta"});
}

TEST_F(Attend, AFeatureLeftOutIsTheDefault) {
  const Arrays linear = inputs_for({"linear", "elu"}), performer = inputs_for({"performer", "positive"});
  EXPECT_EQ(attend("", linear).at("y").values, attend(" --attention linear --feature elu", linear).at("y").values);
  EXPECT_EQ(attend(" --attention performer", performer).at("y").values,
            attend(" --attention performer --feature positive", performer).at("y").values);
}

TEST_F(Attend, OmegaThatWasDrawnGivesTheSameAgain) {
  const Arrays in = without(inputs_for({"performer", "positive"}), "omega");
  const std::string flags = " --attention performer --feature hyperbolic --causal";
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (const char* projection : {"iid", "orthogonal", "stratified", "fixed-norm"}) {
      SCOPED_TRACE(projection);
      const Arrays drawn = attend(flags + " --features 6 --seed 3 --projection " + projection, in, dtype);
      EXPECT_TRUE((drawn.at("omega").shape == Shape{2, 6, 4}));
      Arrays fed = in;
      fed["omega"] = drawn.at("omega");
      const Arrays again = attend(flags, fed, dtype);
      for (const auto& [name, array] : drawn) EXPECT_EQ(array.values, again.at(name).values) << name;
    }
  }
  const Numbers orthogonal = attend(flags + " --features 6", in).at("omega").values;
  EXPECT_EQ(attend(flags + " --features 6 --seed 1 --projection orthogonal", in).at("omega").values, orthogonal);
  EXPECT_NE(attend(flags + " --features 6 --seed 2", in).at("omega").values, orthogonal);
  EXPECT_NE(attend(flags + " --features 6 --projection iid", in).at("omega").values, orthogonal);
  EXPECT_TRUE((attend(flags, in).at("omega").shape == Shape{2, 64, 4}));
}

TEST_F(Attend, SigmaComesFromAFlagWhereTheFileHasNone) {
  const Arrays in = inputs_for({"soft-vq", ""});
  const Arrays given = attend(" --attention soft-vq", in);
  const Arrays flagged = attend(" --attention soft-vq --sigma 0.8125 --codes 6", without(in, "sigma"));
  for (const auto& [name, array] : given) EXPECT_EQ(array.values, flagged.at(name).values) << name;
  Arrays one = in;
  one["sigma"].values = {1};
  EXPECT_EQ(attend(" --attention soft-vq", without(in, "sigma")).at("y").values,
            attend(" --attention soft-vq", one).at("y").values);
}

// f64 tables keep all their digits.
TEST_F(Attend, KeepsTheDigitsOfDoubles) {
  for (const Mechanism& m : {Mechanism{"performer", "positive"}, Mechanism{"vq", ""}, Mechanism{"soft-vq", ""}}) {
    Arrays in = inputs_for(m);
    for (auto& [name, array] : in)
      for (double& value : array.values) value *= 1 + 1e-9;
    EXPECT_LE(error_of(attend(m.flags(), in).at("y").values, formula(m, in, false)), 1e-12) << m.flags();
  }
}

TEST_F(Attend, WritesWhatExistsAndNothingElse) {
  const auto names = [&](const std::string& flags, const Arrays& in) {
    Words result;
    for (const auto& [name, array] : attend(flags, in)) result.push_back(name);
    return result;
  };
  const Mechanism soft{"soft-vq", ""}, gated{"linear", "elu", "gated"};
  EXPECT_EQ(names("", without(inputs_for({"linear", "elu"}), "dy")), (Words{"y"}));
  EXPECT_EQ(names(soft.flags(), inputs_for(soft)), (Words{"dcodebook", "dk", "dq", "dsigma", "dv", "y"}));
  EXPECT_EQ(names(soft.flags(), without(inputs_for(soft), "dy")), (Words{"y"}));
  EXPECT_EQ(names(gated.flags() + " --causal", inputs_for(gated)), (Words{"dgate", "dk", "dq", "dv", "y"}));
  EXPECT_EQ(names(" --attention vq", inputs_for({"vq", ""})), (Words{"dk", "dq", "dv", "y"}));
}

TEST_F(Attend, RowsThatSeeNothingAre0) {
  Arrays in = inputs_for({"linear", "square"});
  for (double& value : in.at("k").values) value = 0;
  for (const std::string form : {"quadratic", "chunked"})
    for (const auto& [name, array] : attend(" --feature square --causal --form " + form, in))
      EXPECT_EQ(array.values, Numbers(array.values.size())) << form << " " << name;
  EXPECT_EQ(attend(" --feature square --causal --form recurrent", without(in, "dy")).at("y").values,
            Numbers(in.at("v").values.size()));
}

TEST_F(Attend, NamesWhatItDoesNotUse) {
  Arrays in = inputs_for({"linear", "elu", "delta"});
  in["surplus"] = {{2}, {std::nan(""), 1}};
  save("in.safetensors", in);
  const Outcome tensors = done("attend --attention softmax --in in.safetensors --out out.safetensors");
  ASSERT_EQ(lines_of(tensors.err).size(), 1u) << tensors.err;
  for (const char* fragment : {"softmax", "\"beta\"", "\"surplus\"", "ignored"})
    EXPECT_NE(tensors.err.find(fragment), std::string::npos) << tensors.err;
  EXPECT_EQ(load("out.safetensors").size(), 4u);
  save("in.safetensors", inputs_for({"softmax", ""}));
  const Outcome flags =
      done("attend --attention softmax --codes 3 --nu 2 --in in.safetensors --out out.safetensors");
  EXPECT_EQ(flags.err, "linea: softmax does not use --nu, --codes: ignored\n");
}

// ------------------------------------------------------------------------------------------- what is refused

TEST_F(Attend, RefusesCombinationsThatDoNotExist) {
  const Arrays in = inputs_for({"linear", "elu", "delta"});
  const auto usage = [&](const std::string& flags, std::initializer_list<std::string> fragments) {
    bad(2, flags, in, fragments);
  };
  usage(" --attention sparse", {"'sparse'", "softmax"});
  usage(" --feature cosine", {"'cosine'", "elu"});
  usage(" --attention softmax --feature elu", {"softmax", "--feature"});
  usage(" --attention vq --feature elu", {"vq", "--feature"});
  usage(" --attention performer --feature elu", {"'elu'", "positive"});
  usage(" --feature positive", {"'positive'", "elu"});
  usage(" --rule slow --causal", {"'slow'", "gated"});
  usage(" --rule delta --feature square --causal", {"delta", "square"});
  usage(" --rule gated --feature square --causal", {"gated", "square"});
  for (const char* other : {"softmax", "performer", "vq", "soft-vq"})
    usage(fmt::format(" --attention {} --rule delta --causal", other), {"--rule delta", other});
  usage(" --rule delta", {"--rule delta", "--causal"});
  usage(" --rule gated", {"--rule gated", "--causal"});
  usage(" --form recurrent", {"--form recurrent", "--causal"});
  usage(" --form recurrent --causal", {"dy", "--form recurrent"});
  usage(" --form sideways", {"'sideways'", "chunked"});
  usage(" --device cuda", {"'cuda'", "CUDA"});
  usage(" --device quantum", {"'quantum'"});
  usage(" --attention performer --projection round", {"'round'", "orthogonal"});
  usage(" --attention performer --features 0", {"--features is 0"});
  usage(" --attention soft-vq --sigma 0", {"--sigma is 0"});
  usage(" --attention vq --codes 0", {"--codes is 0"});
  usage(" --feature dpfp --nu 0", {"--nu is 0"});
  usage(" --feature dpfp --nu 8", {"nu is 8", "1..7"});
  for (const char* flag : {"seed", "threads", "segment", "chunk"})
    usage(fmt::format(" --{} -1", flag), {fmt::format("--{} is -1", flag)});
  usage(" --threads many", {"--threads"});
  usage(" --chunks 8", {"'--chunks'", "'--chunk'"});
  refused(2, "attend --in bad.safetensors", {"--out"});
  refused(2, "attend --out none.safetensors", {"--in"});
  refused(2, "attend --in bad.safetensors --out bad.safetensors", {"--in", "--out"});
}

TEST_F(Attend, RefusesFlagsThatContradictTheFile) {
  bad(2, " --attention performer --features 7", inputs_for({"performer", ""}),
      {"--features is 7", "omega", "[2,6,4]"});
  bad(2, " --attention vq --codes 7", inputs_for({"vq", ""}), {"--codes is 7", "codebook", "[2,6,4]"});
  bad(2, " --attention soft-vq --sigma 2", inputs_for({"soft-vq", ""}), {"--sigma is 2", "0.8125"});
}

TEST_F(Attend, NamesTensorsThatAreMissingOrMisshaped) {
  const auto input = [&](const Mechanism& m, const std::string& name, const Shape& shape,
                         std::initializer_list<std::string> fragments) {
    Arrays in = inputs_for(m);
    if (shape.rank() == 0)
      in.erase(name);
    else
      in[name] = normal(shape, 9);
    bad(3, m.flags() + (m.causal_only() ? " --causal" : ""), in, fragments);
  };
  const Mechanism elu{"linear", "elu"}, gated{"linear", "elu", "gated"}, delta{"linear", "elu", "delta"},
      performer{"performer", ""}, vq{"vq", ""}, soft{"soft-vq", ""};
  input(elu, "q", {}, {"bad.safetensors", "no tensor q", "[B,H,N,D]"});
  input(elu, "k", {}, {"no tensor k", "[2,2,19,4]"});
  input(elu, "v", {}, {"no tensor v", "[2,2,19,M]"});
  input(gated, "gate", {}, {"no tensor gate", "[2,2,19]"});
  input(delta, "beta", {}, {"no tensor beta", "[2,2,19]"});
  input(vq, "codebook", {}, {"no tensor codebook", "[2,F,4]"});
  input(soft, "codebook", {}, {"no tensor codebook", "[2,F,4]"});
  input(elu, "q", {2, 19, 4}, {"q is [2,19,4]", "[B,H,N,D]"});
  input(elu, "k", {2, 2, 18, 4}, {"k is [2,2,18,4]", "[2,2,19,4]"});
  input(elu, "v", {2, 2, 19}, {"v is [2,2,19]", "[2,2,19,M]"});
  input(elu, "dy", {2, 2, 19, 4}, {"dy is [2,2,19,4]", "[2,2,19,3]"});
  input(gated, "gate", {2, 2, 19, 1}, {"gate is [2,2,19,1]", "[2,2,19]"});
  input(delta, "beta", {2, 19, 2}, {"beta is [2,19,2]", "[2,2,19]"});
  input(performer, "omega", {6, 4}, {"omega is [6,4]", "[2,R,4]"});
  input(performer, "omega", {2, 6, 5}, {"omega is [2,6,5]", "[2,R,4]"});
  input(vq, "codebook", {1, 6, 4}, {"codebook is [1,6,4]", "[2,F,4]"});
  input(soft, "sigma", {2}, {"sigma is [2]", "[1]"});
  for (const Shape& shape : {Shape{0, 2, 19, 4}, Shape{2, 0, 19, 4}, Shape{2, 2, 0, 4}, Shape{2, 2, 19, 0}})
    input(elu, "q", shape, {"q is " + shape.str(), "at least 1"});
  input(elu, "v", {2, 2, 19, 0}, {"v is [2,2,19,0]", "at least 1"});
  input(performer, "omega", {2, 0, 4}, {"omega is [2,0,4]", "at least 1"});
  input(vq, "codebook", {2, 0, 4}, {"codebook is [2,0,4]", "at least 1"});
}

TEST_F(Attend, NamesTensorsOfAnotherType) {
  const Arrays in = inputs_for({"linear", "elu"});
  const auto mixed = [&](const std::string& other, DType dtype) {
    std::vector<NamedTensor> tensors;
    for (const auto& [name, array] : in) {
      Tensor tensor = tensor_of(array, DType::f64);
      if (name == other)
        tensor = dtype == DType::f32 ? tensor_of(array, dtype) : Tensor::zeros(array.shape, dtype);
      tensors.push_back({name, tensor});
    }
    write_safetensors(path("bad.safetensors"), tensors);
  };
  mixed("v", DType::f32);
  bad_file(3, "", {"bad.safetensors", "v is F32", "q is F64"});
  mixed("dy", DType::f32);
  bad_file(3, "", {"dy is F32", "q is F64"});
  mixed("q", DType::i32);
  bad_file(3, "", {"q is I32", "F32", "F64"});
}

TEST_F(Attend, NamesNumbersThatCannotBe) {
  const auto number = [&](const Mechanism& m, const std::string& name, double value,
                          std::initializer_list<std::string> fragments) {
    Arrays in = inputs_for(m);
    in.at(name).values.back() = value;
    bad(3, m.flags() + (m.causal_only() ? " --causal" : ""), in, fragments);
  };
  const Mechanism gated{"linear", "elu", "gated"}, delta{"linear", "elu", "delta"}, soft{"soft-vq", ""};
  const double infinite = HUGE_VAL;
  for (const char* name : {"q", "k", "v", "dy", "codebook", "sigma"}) {
    number(soft, name, std::nan(""), {"bad.safetensors", fmt::format(" {} is nan", name), "finite"});
    number(soft, name, -infinite, {fmt::format(" {} is -inf", name)});
  }
  number(gated, "gate", std::nan(""), {"gate is nan at [1,1,18]"});
  number(delta, "beta", infinite, {"beta is inf at [1,1,18]"});
  number({"performer", ""}, "omega", std::nan(""), {"omega is nan at [1,5,3]"});
  for (const double value : {0.0, 1.0, -0.5, 2.0}) {
    number(gated, "gate", value, {fmt::format("gate is {:g} at [1,1,18]", value), "below 1"});
    number(delta, "beta", value, {fmt::format("beta is {:g} at [1,1,18]", value), "below 1"});
  }
  number(soft, "sigma", 0, {"sigma is 0", "above 0"});
  number(soft, "sigma", -1, {"sigma is -1", "above 0"});
}

TEST_F(Attend, RefusesAResultThatIsNotFinite) {
  Arrays in = inputs_for({"linear", "square"});
  for (double& value : in.at("q").values) value *= 1e200;
  bad(4, " --feature square", in, {"y of bad.safetensors", "nan"});
}

TEST_F(Attend, NamesFilesThatCannotBeReadOrWritten) {
  bad_file(3, "", {"bad.safetensors"});
  put("bad.safetensors", "not tensors");
  bad_file(3, "", {"bad.safetensors"});
  const Arrays in = inputs_for({"linear", "elu"});
  save("in.safetensors", in);
  refused(6, "attend --in in.safetensors --out nowhere/out.safetensors", {"nowhere"});
  const Outcome cut = linea(words_of("attend --in in.safetensors --out out.safetensors"), 1000);  // bytes a file
  check_refusal(cut, 6, "a file that cannot grow", {"out.safetensors"});
  EXPECT_EQ(names_in(""), (Words{".stderr", ".stdout", "bad.safetensors", "in.safetensors"}));
}

}  // namespace
}  // namespace linea
