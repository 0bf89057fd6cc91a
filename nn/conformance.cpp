#include "nn/conformance.h"

#include <algorithm>
#include <limits>

#include "autograd/ops.h"
#include "nn/conformance_tools.h"

namespace linea {
namespace {

using namespace conformance;

class Conformance {
 public:
  Conformance(const AttentionFactory& make, const AttentionOptions& variant,
              const ConformanceOptions& options)
      : make_(make), variant_(variant), options_(options) {}

  std::vector<Check> all() {
    measure({{"outputs = quadratic", 1e-9}, {"gradients = quadratic", 1e-9}}, [&] { return forms(); });
    measure({{"outputs, float", 1e-4}, {"gradients, float", 1e-3}}, [&] { return single_precision(257); });
    measure({{"gradients = differences", 1e-7}}, [&] { return differences(); });
    measure({{"step = outputs", 1e-9}}, [&] { return recurrent(DType::f64); });
    measure({{"step = outputs, float", 1e-4}}, [&] { return recurrent(DType::f32); });
    measure({{"state growth, keys a position", keeps_keys() ? 2.0 : 0.0}}, [&] { return state_growth(); });
    measure({{"causality: bits", 0}, {"causality: gradients", 0}}, [&] { return causality(); });
    measure({{"padding = quadratic", 1e-9}, {"padding = cut", 1e-9}}, [&] { return padding(); });
    measure({{"padding: bits", 0}, {"padding: gradients", 0}}, [&] { return padded_values(); });
    measure({{"other sequences", 1e-12}}, [&] { return independence(); });
    measure({{"two runs: bits", 0}}, [&] { return determinism(); });
    measure({{"large inputs, float", 1e-3}, {"large inputs: not finite", 0}}, [&] { return large_inputs(); });
    measure({{"memory, scalars a position", keeps_keys() ? 8.0 + 2 * 64 : 8.0}}, [&] { return memory(); });
    if (!options_.quick)
      measure({{"outputs, long, float", 1e-4},
               {"gradients, long, float", 1e-5},
               {"gate, parameters, long, float", 1e-4}},
              [&] { return long_gradient(); });
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
    const auto asked = [&](const Claim& claim) { return claim.name.rfind(options_.only, 0) == 0; };
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

  // The only kind whose state and blocks of scores grow with the sequence.
  bool keeps_keys() const { return variant_.attention == "softmax"; }

  std::unique_ptr<Attention> made(const Sizes& sizes, DType dtype, int64_t segment = 0, int64_t chunk = 0) const {
    AttentionOptions options = variant_;
    options.dtype = dtype;
    options.heads = sizes.heads;
    options.key_size = sizes.key_size;
    options.value_size = sizes.value_size;
    options.segment = segment;
    options.chunk = chunk;
    return make_(options);
  }

  // The engine's own sizes, and small ones whose borders every length here crosses.
  template <typename Body>
  void with_cuts(const Sizes& sizes, DType dtype, const Body& body) const {
    body(*made(sizes, dtype), std::string("own segments"));
    body(*made(sizes, dtype, 40, 16), std::string("segments of 40"));
  }

  std::vector<bool> directions() const {
    return made({}, DType::f32)->causal_only() ? std::vector<bool>{true} : std::vector<bool>{true, false};
  }

  std::vector<Worst> forms() const {
    Worst outputs, gradients;
    const std::vector<int64_t> lengths =
        options_.quick ? std::vector<int64_t>{1, 65, 257} : std::vector<int64_t>{1, 63, 64, 65, 257};
    for (const int64_t length : lengths) {
      for (const bool causal : directions()) {
        Sizes sizes;
        sizes.length = length;
        const Inputs x = draw(sizes, DType::f64);
        const AttentionMask mask{causal, {}};
        const Outcome expected = run(*made(sizes, DType::f64), &Attention::quadratic, x, mask);
        for (const int count : {1, 2}) {
          const Threads threads(count);
          with_cuts(sizes, DType::f64, [&](const Attention& attention, const std::string& cut) {
            const Outcome found = run(attention, &Attention::forward, x, mask);
            const std::string where = fmt::format("{} positions, {}, {}, {} threads", length,
                                                  causal ? "causal" : "not causal", cut, count);
            outputs.take(relative_error(found.y, expected.y), where);
            gradients.take(gradient_error(found, expected), where);
          });
        }
      }
    }
    return {outputs, gradients};
  }

  std::vector<Worst> single_precision(int64_t length) const {
    Worst outputs, gradients;
    Sizes sizes;
    sizes.length = length;
    const Inputs x = draw(sizes, DType::f32);
    for (const bool causal : directions()) {
      const AttentionMask mask{causal, {}};
      const Outcome expected = run(*made(sizes, DType::f64), &Attention::quadratic, in_dtype(x, DType::f64), mask);
      with_cuts(sizes, DType::f32, [&](const Attention& attention, const std::string& cut) {
        const Outcome found = run(attention, &Attention::forward, x, mask);
        const std::string where = (causal ? "causal, " : "not causal, ") + cut;
        outputs.take(relative_error(found.y, expected.y), where);
        gradients.take(gradient_error(found, expected), where);
      });
    }
    return {outputs, gradients};
  }

  std::vector<Worst> differences() const {
    Worst worst;
    for (const int64_t length : {1, 9}) {
      const Sizes sizes{1, 2, length, 3, 4};
      // Far enough from the kink of relu + 1e-3, where 1 / phi bends too fast for a difference.
      const Inputs x = draw(sizes, DType::f64, deviation(), 1, 0.1);
      const std::unique_ptr<Attention> attention = made(sizes, DType::f64, 4, 2);
      for (const bool causal : directions()) {
        const AttentionMask mask{causal, {}};
        const bool probes_k = !attention->straight_through();  // else dk is not the slope of k
        std::vector<Tensor> inputs = {x.q, x.v};
        std::vector<std::string> names = {"q", "v"};
        if (probes_k) inputs.push_back(x.k), names.push_back("k");
        if (attention->gated()) inputs.push_back(x.gate), names.push_back("gate");
        const std::string where = fmt::format("{} positions, {}", length, causal ? "causal" : "not causal");
        const auto all = [&](const std::vector<Var>& in) {
          AttentionInputs taken{in[0], probes_k ? in[2] : Var(x.k), in[1], Var()};
          if (attention->gated())
            taken.gate = reshape(in.back(), {sizes.batch, sizes.heads, length});
          return attention->forward(taken, mask);
        };
        const GradcheckResult result = gradcheck(all, inputs);
        worst.take(result.error, "d" + names[static_cast<size_t>(result.worst_input)] + ", " + where);
        for (const Parameter& parameter : attention->parameters())
          worst.take(parameter_error(*attention, parameter.var, x, mask), "d" + parameter.name + ", " + where);
      }
    }
    return {worst};
  }

  // A parameter's gradient against the five-point difference of cotangent . y, element by element.
  static double parameter_error(const Attention& attention, Var parameter, const Inputs& x, const AttentionMask& mask) {
    const Tensor own = parameter.value();
    const auto gates = gates_for(attention, x.gate);
    const AttentionInputs in{Var(x.q), Var(x.k), Var(x.v), gates.defined() ? Var(gates) : Var()};
    parameter.clear_grad();
    backward(attention.forward(in, mask), x.dy);
    const Tensor analytic = parameter.grad();
    const NoGrad no_grad;
    const std::vector<double> values = own.to_doubles(), cotangent = x.dy.to_doubles();
    std::vector<double> numeric(values.size());
    constexpr double kStep = 4e-4;
    for (size_t i = 0; i < values.size(); ++i) {
      const auto at = [&](double offset) {
        std::vector<double> moved = values;
        moved[i] += offset;
        parameter.set_value(Tensor::from(moved, own.shape()));
        const std::vector<double> y = attention.forward(in, mask).value().to_doubles();
        double total = 0;
        for (size_t j = 0; j < y.size(); ++j) total += y[j] * cotangent[j];
        return total;
      };
      numeric[i] = (8 * (at(kStep) - at(-kStep)) - (at(2 * kStep) - at(-2 * kStep))) / (12 * kStep);
    }
    parameter.set_value(own);
    return relative_error(analytic, Tensor::from(numeric, own.shape()), 1e-3);
  }

  std::vector<Worst> recurrent(DType dtype) const {
    Worst worst;
    Sizes sizes;
    sizes.length = 130;
    const Inputs x = draw(sizes, dtype);
    const std::unique_ptr<Attention> attention = made(sizes, dtype);
    const Tensor expected = run(*attention, &Attention::forward, x, {}).y;
    const std::unique_ptr<AttentionState> state = attention->start(sizes.batch, dtype);
    const double scale = relative_error(expected, Tensor::zeros(expected.shape(), dtype));
    for (int64_t n = 0; n < sizes.length; ++n) {
      const Tensor y = attention->step(*state, step_at(*attention, x, n));
      const std::vector<double> a = y.to_doubles(), b = at_position(expected, n).to_doubles();
      for (size_t i = 0; i < a.size(); ++i)
        worst.take(std::abs(a[i] - b[i]) / scale, fmt::format("position {}", n));
    }
    return {worst};
  }

  // In units of one key and one value of every sequence and head.
  std::vector<Worst> state_growth() const {
    Sizes sizes;
    sizes.length = 200;
    const Inputs x = draw(sizes, DType::f32);
    const std::unique_ptr<Attention> attention = made(sizes, DType::f32);
    const std::unique_ptr<AttentionState> state = attention->start(sizes.batch, DType::f32);
    const double before = static_cast<double>(state->bytes());
    for (int64_t n = 0; n < sizes.length; ++n)
      attention->step(*state, step_at(*attention, x, n));
    const double unit = static_cast<double>(x.k.bytes() + x.v.bytes());
    return {{(static_cast<double>(state->bytes()) - before) / unit,
             fmt::format("{} bytes, then {}", static_cast<size_t>(before), state->bytes())}};
  }

  // Changes all that stands after t, then reads what stands up to t; and asks what stands after t for its
  // part in a loss that ends at t.
  std::vector<Worst> causality() const {
    Worst outputs, gradients;
    Sizes sizes;
    sizes.length = 300;
    const Inputs x = draw(sizes, DType::f32), wild = draw(sizes, DType::f32, 100.0, 11);
    const Tensor nothing = Tensor::zeros(x.dy.shape(), DType::f32);
    const Tensor wild_values = ops::scale(wild.v, 100.0);
    const AttentionMask mask{true, {}};
    with_cuts(sizes, DType::f32, [&](const Attention& attention, const std::string& cut) {
      const auto other_gates = [&](const Attention& one, const auto& later) {
        const Tensor gates = gates_for(one, blend(x.gate, wild.gate, later));
        return gates.defined() ? Var(gates) : Var();
      };
      const Tensor before = run(attention, &Attention::forward, x, mask).y;
      for (const int64_t last : {0, 15, 16, 31, 32, 39, 40, 63, 64, 119, 255, 256, 298}) {
        const auto later = [&](int64_t, int64_t n) { return n > last; };
        const auto earlier = [&](int64_t, int64_t n) { return n <= last; };
        const std::string where = fmt::format("position {}, {}", last, cut);
        const NoGrad no_grad;
        const Tensor after = attention
                                 .forward({Var(blend(x.q, wild.q, later)), Var(blend(x.k, wild.k, later)),
                                           Var(blend(x.v, wild_values, later)), other_gates(attention, later)},
                                          mask)
                                 .value();
        outputs.take(different_bits(before, after, earlier), where);
      }
      for (const int64_t last : {0, 16, 39, 63, 255}) {
        const auto later = [&](int64_t, int64_t n) { return n > last; };
        const Inputs read = x.with_dy(blend(x.dy, nothing, later));
        const Outcome found = run(attention, &Attention::forward, read, mask);
        for (const Tensor& gradient : {found.dq, found.dk, found.dv})
          gradients.take(largest(gradient, later), fmt::format("position {}, {}", last, cut));
      }
    });
    return {outputs, gradients};
  }

  // Against the definition, every row; and each sequence against itself without its padding.
  std::vector<Worst> padding() const {
    Worst outputs, cut_off;
    const Sizes sizes{6, 2, 97, 5, 7};
    const std::vector<int64_t> counts = padded_counts();
    const auto is_padding = [&](int64_t b, int64_t n) { return n >= counts[static_cast<size_t>(b)]; };
    const Inputs x = draw(sizes, DType::f64);
    const Tensor nothing = Tensor::zeros(x.dy.shape(), DType::f64);
    for (const bool causal : directions()) {
      const AttentionMask mask = padded_mask(causal);
      const Outcome expected = run(*made(sizes, DType::f64), &Attention::quadratic, x, mask);
      with_cuts(sizes, DType::f64, [&](const Attention& attention, const std::string& cut) {
        const std::string where = (causal ? "causal, " : "not causal, ") + cut;
        const Outcome found = run(attention, &Attention::forward, x, mask);
        outputs.take(relative_error(found.y, expected.y), where);
        // With one key y = v: gradients are 0, and what is left of them rounding over a_ij, maybe tiny.
        const auto several = [&](const Tensor& t) { return pick(t, {0, 1, 3, 4, 5}, {0, 1}, 97); };
        outputs.take(gradient_error(part_of(found, several), part_of(expected, several)), where + ", gradients");
        const Inputs read = x.with_dy(blend(x.dy, nothing, is_padding));
        const Outcome padded = run(attention, &Attention::forward, read, mask);
        for (int64_t b = 0; b < sizes.batch; ++b) {
          const int64_t length = counts[static_cast<size_t>(b)];
          const std::string which = fmt::format("{}, {} of 97 keys", where, length);
          if (length == 0) {
            cut_off.take(largest(padded.y, [&](int64_t other, int64_t) { return other == b; }), which);
            continue;
          }
          const auto alone = [&](const Tensor& t) { return pick(t, {b}, {0, 1}, length); };
          const Outcome one = run(attention, &Attention::forward, part_of(x, alone), {causal, {}});
          cut_off.take(relative_error(alone(padded.y), one.y), which);
          cut_off.take(gradient_error(part_of(padded, alone), one), which + ", gradients");
        }
      });
    }
    return {outputs, cut_off};
  }

  // Whatever stands in padded keys and values: wild numbers, NaN.
  std::vector<Worst> padded_values() const {
    Worst outputs, gradients;
    const Sizes sizes{6, 2, 97, 5, 7};
    const std::vector<int64_t> counts = padded_counts();
    const auto is_padding = [&](int64_t b, int64_t n) { return n >= counts[static_cast<size_t>(b)]; };
    const auto anywhere = [](int64_t, int64_t) { return true; };
    const Inputs x = draw(sizes, DType::f32), wild = draw(sizes, DType::f32, 100.0, 11);
    const double nan = std::numeric_limits<double>::quiet_NaN();
    const Tensor nan_keys = Tensor::full(x.k.shape(), DType::f32, nan);
    const Tensor nan_values = Tensor::full(x.v.shape(), DType::f32, nan);
    const Tensor nan_gates = Tensor::full(x.gate.shape(), DType::f32, nan);
    for (const bool causal : directions()) {
      const AttentionMask mask = padded_mask(causal);
      with_cuts(sizes, DType::f32, [&](const Attention& attention, const std::string& cut) {
        const Outcome before = run(attention, &Attention::forward, x, mask);
        const auto change = [&](const Tensor& keys, const Tensor& values, const Tensor& gates, const std::string& what) {
          const std::string where = what + (causal ? ", causal, " : ", not causal, ") + cut;
          const Inputs changed{x.q, blend(x.k, keys, is_padding), blend(x.v, values, is_padding), x.dy,
                               blend(x.gate, gates, is_padding)};
          const Outcome after = run(attention, &Attention::forward, changed, mask);
          outputs.take(different_bits(before.y, after.y, anywhere), where);
          outputs.take(different_bits(before.dq, after.dq, anywhere), where + ", dq");
          gradients.take(largest(after.dk, is_padding), where + ", dk");
          gradients.take(largest(after.dv, is_padding), where + ", dv");
          if (after.dgate.defined()) gradients.take(largest(after.dgate, is_padding), where + ", dgate");
          for (const Tensor& slope : after.dparameters)
            gradients.take(static_cast<double>(ops::count_nonfinite(slope)), where + ", parameters not finite");
        };
        change(wild.k, wild.v, wild.gate, "wild");
        change(nan_keys, nan_values, nan_gates, "NaN");
      });
    }
    return {outputs, gradients};
  }

  // The same sequences in another order and alone, the same heads in another order.
  std::vector<Worst> independence() const {
    Worst worst;
    const Sizes sizes{3, 2, 97, 5, 7};
    const Inputs x = draw(sizes, DType::f64);
    const std::unique_ptr<Attention> attention = made(sizes, DType::f64);
    for (const bool causal : directions()) {
      const AttentionMask mask{causal, {}};
      const Outcome all = run(*attention, &Attention::forward, x, mask);
      const auto compare = [&](const std::vector<int64_t>& batches, const std::vector<int64_t>& heads,
                               const std::string& where) {
        const auto part = [&](const Tensor& t) { return pick(t, batches, heads, sizes.length); };
        const Outcome some = run(*attention, &Attention::forward, part_of(x, part), mask);
        worst.take(relative_error(some.y, part(all.y)), where);
        worst.take(gradient_error(some, part_of(all, part)), where);
      };
      compare({2, 0, 1}, {0, 1}, "sequences in another order");
      compare({1}, {0, 1}, "one sequence alone");
      if (!has_heads_of_its_own()) compare({0, 1, 2}, {1, 0}, "heads in another order");
    }
    return {worst};
  }

  std::vector<Worst> determinism() const {
    Worst worst;
    const Threads threads(2);
    Sizes sizes;
    const Inputs x = draw(sizes, DType::f32);
    const auto anywhere = [](int64_t, int64_t) { return true; };
    for (const bool causal : directions()) {
      with_cuts(sizes, DType::f32, [&](const Attention& attention, const std::string& cut) {
        const Outcome one = run(attention, &Attention::forward, x, {causal, {}});
        const Outcome two = run(attention, &Attention::forward, x, {causal, {}});
        worst.take(different_bits(one.y, two.y, anywhere), "y, " + cut);
        worst.take(different_bits(one.dq, two.dq, anywhere), "dq, " + cut);
        worst.take(different_bits(one.dk, two.dk, anywhere), "dk, " + cut);
        worst.take(different_bits(one.dv, two.dv, anywhere), "dv, " + cut);
        if (one.dgate.defined()) worst.take(different_bits(one.dgate, two.dgate, anywhere), "dgate, " + cut);
        for (size_t i = 0; i < one.dparameters.size(); ++i)
          worst.take(relative_error(one.dparameters[i], two.dparameters[i]), "parameters, " + cut);
      });
    }
    return {worst};
  }

  // q, k of standard deviation 8 at D = 64.
  std::vector<Worst> large_inputs() const {
    Worst outputs, bad;
    const Sizes sizes{1, 2, 257, 64, 24};
    const Inputs x = draw(sizes, DType::f32, 8.0);
    const std::unique_ptr<Attention> attention = made(sizes, DType::f32), precise = made(sizes, DType::f64);
    for (const bool causal : directions()) {
      const AttentionMask mask{causal, {}};
      const std::string where = causal ? "causal" : "not causal";
      const Outcome expected = run(*precise, &Attention::forward, in_dtype(x, DType::f64), mask);
      const Outcome found = run(*attention, &Attention::forward, x, mask);
      if (signed_features()) {
        const auto [error, exempt] = error_of_sound_rows(*precise, x, mask, found.y, expected.y);
        outputs.take(error, fmt::format("{}, {} rows of {} cancel and are left out", where, exempt, 2 * 257));
      } else {
        outputs.take(relative_error(found.y, expected.y), where);
      }
      for (const Tensor& t : {found.y, found.dq, found.dk, found.dv, found.dgate})
        if (t.defined()) bad.take(static_cast<double>(ops::count_nonfinite(t)), where);
    }
    return {outputs, bad};
  }

  // Signed weights nearly cancel in some rows of N(0,1), which then rule every error; at 0.5 they do not.
  double deviation() const { return signed_features() ? 0.5 : 1.0; }
  bool signed_features() const { return variant_.attention == "performer" && variant_.feature == "trig"; }

  // Signed weights cancel in some rows: those with |sum_j a_ij| < 1e-3 sum_j |a_ij| are counted instead. The
  // matrix of a_ij / sum_j a_ij is what the definition makes of v = 1.
  static std::pair<double, int64_t> error_of_sound_rows(const Attention& attention, const Inputs& x,
                                                        const AttentionMask& mask, const Tensor& found,
                                                        const Tensor& expected) {
    const int64_t pairs = x.q.size(0) * x.q.size(1), N = x.q.size(2), M = found.size(3);
    std::vector<double> identity(static_cast<size_t>(pairs * N * N));
    for (int64_t i = 0; i < pairs * N; ++i) identity[static_cast<size_t>(i * N + i % N)] = 1;
    const Inputs wide = in_dtype(x, DType::f64);
    const Var ones(Tensor::from(identity, {x.q.size(0), x.q.size(1), N, N}));
    const std::vector<double> matrix =
        attention.quadratic({Var(wide.q), Var(wide.k), ones, Var()}, mask).value().to_doubles();
    const std::vector<double> a = found.to_doubles(), b = expected.to_doubles();
    double error = 0, most = 0;
    int64_t exempt = 0;
    for (int64_t i = 0; i < pairs * N; ++i) {
      double sum = 0;
      for (int64_t j = 0; j < N; ++j) sum += std::abs(matrix[static_cast<size_t>(i * N + j)]);
      if (!(sum <= 1e3)) {
        ++exempt;
        continue;
      }
      for (int64_t m = i * M; m < (i + 1) * M; ++m) {
        error = std::max(error, std::abs(a[static_cast<size_t>(m)] - b[static_cast<size_t>(m)]));
        most = std::max(most, std::abs(b[static_cast<size_t>(m)]));
      }
    }
    return {error / most, exempt};
  }

  // How much more a forward and backward hold for each further position of one head, in scalars, beyond
  // inputs, output and gradients. A row of features would be 16, a row of scores 4096; softmax works in
  // two blocks of 64 rows of scores.
  std::vector<Worst> memory() const {
    const Threads threads(1);
    const auto extra = [&](int64_t length) {
      const Sizes sizes{1, 1, length, 16, 16};
      const Inputs x = draw(sizes, DType::f32);
      const std::unique_ptr<Attention> attention = made(sizes, DType::f32);
      reset_cpu_peak();
      const double before = static_cast<double>(cpu_memory().held);
      const Outcome o = run(*attention, &Attention::forward, x, {});
      const double results = static_cast<double>(o.y.bytes() + o.dq.bytes() + o.dk.bytes() + o.dv.bytes());
      return static_cast<double>(cpu_memory().peak) - before - results;
    };
    const double at_2048 = extra(2048), at_4096 = extra(4096);
    return {{(at_4096 - at_2048) / (2048 * sizeof(float)),
             fmt::format("{:.0f} bytes at 2048 positions, {:.0f} at 4096", at_2048, at_4096)}};
  }

  std::vector<Worst> long_gradient() const {
    const Sizes sizes{1, 1, keeps_keys() ? 4096 : 16384, 8, 8};  // a quarter, where time is N^2
    const Inputs x = draw(sizes, DType::f32, deviation());
    const std::unique_ptr<Attention> attention = made(sizes, DType::f32), precise = made(sizes, DType::f64);
    const Outcome expected = run(*precise, &Attention::forward, in_dtype(x, DType::f64), {});
    Outcome found = run(*attention, &Attention::forward, x, {});
    const std::string where = fmt::format("{} positions", sizes.length);
    const double all = gradient_error(found, expected);  // a gate's and a parameter's are sums over all positions
    found.dgate = Tensor();
    found.dparameters.clear();
    return {{relative_error(found.y, expected.y), where}, {gradient_error(found, expected), where}, {all, where}};
  }

  // Random features or codes a head: heads are not interchangeable.
  bool has_heads_of_its_own() const {
    return variant_.attention != "linear" && variant_.attention != "softmax";
  }

  AttentionFactory make_;
  AttentionOptions variant_;
  ConformanceOptions options_;
  std::vector<Check> checks_;
};

}  // namespace

std::vector<Check> check_attention(const AttentionOptions& variant, const ConformanceOptions& options) {
  return check_attention(make_attention, variant, options);
}

std::vector<Check> check_attention(const AttentionFactory& make, const AttentionOptions& variant,
                                   const ConformanceOptions& options) {
  return Conformance(make, variant, options).all();
}

}  // namespace linea
