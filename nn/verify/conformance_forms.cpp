// Conformance: the quadratic, the chunked and the recurrent form agree, in float and with large
// inputs too; and the state and the memory of training are of the size that they claim.
#include <algorithm>
#include <cmath>
#include <utility>

#include "nn/verify/attend.h"
#include "nn/verify/conformance_checks.h"

namespace linea::conformance {
namespace {

// Signed weights cancel in some rows: those with |sum_j a_ij| < 1e-3 sum_j |a_ij| are counted
// instead. The matrix of a_ij / sum_j a_ij is what the definition makes of v = 1.
std::pair<double, int64_t> error_of_sound_rows(const Attention& attention, const Inputs& x,
                                               const AttentionMask& mask, const Tensor& found,
                                               const Tensor& expected) {
  const int64_t rows = x.q.size(0) * x.q.size(1) * x.q.size(2), N = x.q.size(2), M = found.size(3);
  const Inputs wide = in_dtype(x, DType::f64);
  const Var values(attend::identity_values(x.q));
  const std::vector<double> matrix =
      attention.quadratic({Var(wide.q), Var(wide.k), values, Var()}, mask).value().to_doubles();
  const std::vector<double> a = found.to_doubles(), b = expected.to_doubles();
  double error = 0, max = 0;
  int64_t exempt = 0;
  for (int64_t i = 0; i < rows; ++i) {
    double sum = 0;
    for (int64_t j = 0; j < N; ++j) sum += std::abs(matrix[static_cast<size_t>(i * N + j)]);
    if (!(sum <= 1e3)) {
      ++exempt;
      continue;
    }
    for (int64_t m = i * M; m < (i + 1) * M; ++m) {
      error = std::max(error, std::abs(a[static_cast<size_t>(m)] - b[static_cast<size_t>(m)]));
      max = std::max(max, std::abs(b[static_cast<size_t>(m)]));
    }
  }
  return {error / max, exempt};
}

// The chunked form against the definition in double.
void compare_with_quadratic(const Subject& subject, const Sizes& sizes, DType dtype,
                            const std::string& where, Worst& outputs, Worst& gradients) {
  const Inputs x = draw(sizes, dtype);
  for (const auto& [mask, direction] : subject.masks()) {
    const Outcome expected = run(*subject.make_attention(sizes, DType::f64), &Attention::quadratic,
                                 in_dtype(x, DType::f64), mask);
    for (const auto& [attention, cut] : subject.cuts(sizes, dtype)) {
      const Outcome found = run(*attention, &Attention::forward, x, mask);
      outputs.take(relative_error(found.y, expected.y), where + direction + cut);
      outputs.take(different_decisions(found.decisions, expected.decisions),
                   where + direction + cut + ", decisions");
      gradients.take(gradient_error(found, expected), where + direction + cut);
    }
  }
}

}  // namespace

std::vector<Worst> forms(const Subject& subject) {
  Worst outputs, gradients;
  Sizes sizes;
  for (const int64_t length : {1, 63, 64, 65, 257}) {
    if (subject.options.quick && (length == 63 || length == 64)) continue;
    sizes.length = length;
    for (const int count : subject.options.quick ? std::vector{2} : std::vector{1, 2}) {
      const Threads threads(count);
      compare_with_quadratic(subject, sizes, DType::f64,
                             fmt::format("{} positions, {} threads, ", length, count), outputs,
                             gradients);
    }
  }
  return {outputs, gradients};
}

std::vector<Worst> single_precision(const Subject& subject) {
  Worst outputs, gradients;
  compare_with_quadratic(subject, {}, DType::f32, "", outputs, gradients);
  return {outputs, gradients};
}

std::vector<Worst> recurrent(const Subject& subject, DType dtype) {
  Worst worst;
  const Sizes sizes{.length = 130};
  const Inputs x = draw(sizes, dtype);
  const std::unique_ptr<Attention> attention = subject.make_attention(sizes, dtype);
  const Tensor expected = run(*attention, &Attention::forward, x, {}).y;
  const std::unique_ptr<AttentionState> state = attention->start(sizes.batch, dtype);
  const double scale = relative_error(expected, Tensor::zeros(expected.shape(), dtype));
  for (int64_t n = 0; n < sizes.length; ++n) {
    const Tensor y = attention->step(*state, step_at(*attention, x, n));
    worst.take(relative_error(y, at_position(expected, n), scale), fmt::format("position {}", n));
  }
  return {worst};
}

// q, k of standard deviation 8 at D = 64.
std::vector<Worst> large_inputs(const Subject& subject) {
  Worst outputs, bad;
  const Sizes sizes{1, 2, 257, 64, 24};
  const Inputs x = draw(sizes, DType::f32, 8.0);
  const std::unique_ptr<Attention> attention = subject.make_attention(sizes, DType::f32),
                                   precise = subject.make_attention(sizes, DType::f64);
  for (const auto& [mask, direction] : subject.masks()) {
    const Outcome expected = run(*precise, &Attention::forward, in_dtype(x, DType::f64), mask);
    const Outcome found = run(*attention, &Attention::forward, x, mask);
    if (attention->traits().signed_weights) {
      const auto [error, exempt] = error_of_sound_rows(*precise, x, mask, found.y, expected.y);
      outputs.take(error, fmt::format("{}, {} rows of {} cancel and are left out", direction,
                                      exempt, 2 * 257));
    } else {
      outputs.take(relative_error(found.y, expected.y), direction);
    }
    bad.take(static_cast<double>(ops::count_nonfinite(found.y)), direction);
    for (const auto& [name, gradient] : found.gradients())
      bad.take(static_cast<double>(ops::count_nonfinite(gradient)), direction);
  }
  return {outputs, bad};
}

// In units of one key and one value of every sequence and head.
std::vector<Worst> state_growth(const Subject& subject) {
  const Sizes sizes{.length = 200};
  const Inputs x = draw(sizes, DType::f32);
  const std::unique_ptr<Attention> attention = subject.make_attention(sizes, DType::f32);
  const std::unique_ptr<AttentionState> state = attention->start(sizes.batch, DType::f32);
  const double before = static_cast<double>(state->bytes());
  for (int64_t n = 0; n < sizes.length; ++n) attention->step(*state, step_at(*attention, x, n));
  const double unit = static_cast<double>(x.k.bytes() + x.v.bytes());
  return {{(static_cast<double>(state->bytes()) - before) / unit,
           fmt::format("{} bytes, then {}", static_cast<size_t>(before), state->bytes())}};
}

// How much more a forward and backward hold for each further position of one head, in scalars,
// beyond inputs, output and gradients. A row of features would be 16, a row of scores 4096.
std::vector<Worst> memory(const Subject& subject) {
  const Threads threads(1);
  const auto extra = [&](int64_t length) {
    Sizes sizes = kMemorySizes;
    sizes.length = length;
    const Inputs x = draw(sizes, DType::f32);
    const std::unique_ptr<Attention> attention = subject.make_attention(sizes, DType::f32);
    const AttentionInputs in = inputs_for(*attention, x, true);
    device_allocator().reset_peak();
    const double before = static_cast<double>(device_allocator().use().held);
    const Outcome o = run(*attention, &Attention::forward, in, x.dy, subject.mask());
    const double results =
        static_cast<double>(o.y.bytes() + o.dq.bytes() + o.dk.bytes() + o.dv.bytes());
    return static_cast<double>(device_allocator().use().peak) - before - results;
  };
  const int64_t N = kMemorySizes.length;
  const double at_n = extra(N), at_2n = extra(2 * N);
  return {{(at_2n - at_n) / (static_cast<double>(N) * sizeof(float)),
           fmt::format("{:.0f} bytes at {} positions, {:.0f} at {}", at_n, N, at_2n, 2 * N)}};
}

}  // namespace linea::conformance
