// Nystromformer: softmax attention by m landmarks, the means q~ and k~ of the segments
// [c L / m, (c + 1) L / m) of the L valid rows of q and k; with s(x) = softmax(x / sqrt(D)):
//
//   F = s(q k~^T),  A = s(q~ k~^T),  B = s(q~ k^T),  y = F Z (B v),  Z about the inverse of A
//   Z <- 1/4 Z (13 I - A Z (15 I - A Z (7 I - A Z))), six times, from A^T / (|A|_1 |A|_inf)
//
// |A|_1 is the largest sum of a column of that head and sequence; |A|_inf is 1, as rows of A sum to 1.
// Sequences of L <= m positions have softmax attention itself. `conv` T > 0: y also gets a convolution of v
// over T rows around n, y_n += sum_t w_t v_{n + t - T/2}, w [T] of a head, which starts as N(0, 1 / (3 T)).
// Not causal: landmarks average future rows.
// Source: Xiong et al. 2021, "Nystromformer: a Nystrom-based algorithm for approximating self-attention",
// eq. 10-14; the iteration of Razavi et al. 2014.
#include <algorithm>
#include <cmath>

#include "autograd/ops.h"
#include "autograd/rules/naive_tools.h"
#include "autograd/slots.h"
#include "autograd/softmax_attention.h"
#include "nn/attention/builtin.h"
#include "nn/attention/parts.h"

namespace linea {
namespace {

constexpr int kIterations = 6;

// y = c I - x;  dx = -dy
Var diagonal_minus(double c, const Var& x) {
  const int64_t m = x.size(-1);
  std::vector<double> diagonal(static_cast<size_t>(m * m));
  for (int64_t i = 0; i < m; ++i) diagonal[static_cast<size_t>(i * (m + 1))] = c;
  const Tensor y =
      ops::add_rows(ops::scale(x.value(), -1), Tensor::from(diagonal, {m, m}, x.dtype()));
  return Var::from_op("diagonal_minus", y, {x},
                      [](const Tensor& dy) { return ops::scale(dy, -1); });
}

Var refined(const Var& a, const Var& start) {
  Var z = start;
  for (int i = 0; i < kIterations; ++i) {
    const Var az = matmul(a, z);
    const Var inner = diagonal_minus(15, matmul(az, diagonal_minus(7, az)));
    z = scale(matmul(z, diagonal_minus(13, matmul(az, inner))), 0.25);
  }
  return z;
}

// The valid positions of the sequences that have more of them than landmarks, and of the others; 0 of the
// rest. Undefined: no sequence.
struct Lengths {
  Lengths(const AttentionMask& mask, int64_t B, int64_t N, int64_t landmarks) {
    const std::vector<int32_t> all = mask.lengths(B, N);
    std::vector<int32_t> is_longer(all), is_shorter(all);
    for (size_t b = 0; b < all.size(); ++b) (all[b] > landmarks ? is_shorter : is_longer)[b] = 0;
    const auto some = [B](const std::vector<int32_t>& lengths) {
      return *std::max_element(lengths.begin(), lengths.end()) > 0 ? Tensor::from(lengths, {B})
                                                                   : Tensor();
    };
    longer = some(is_longer);
    shorter = some(is_shorter);
    if (!longer.defined() && !shorter.defined()) shorter = Tensor::from(all, {B});
  }
  Tensor longer, shorter;
};

class NystromAttention final : public Attention {
 public:
  explicit NystromAttention(const AttentionOptions& options)
      : Attention(options, {.not_causal = "landmarks average future rows", .denominators = false}),
        landmarks_(options.settings.integer("slots")),
        taps_(options.settings.integer("conv")) {
    require(taps_ == 0 || taps_ % 2 == 1,
            "`conv` is {}; it must be odd, as many rows before as after one, or 0 for none", taps_);
    // The gradients of rows of q or k by landmarks, until they are added to others.
    traits_.saved_scalars += static_cast<double>(options.key_size);
    if (taps_ == 0) return;
    conv_ = normal_parameter(options, {options.heads, taps_},
                             1 / std::sqrt(3 * static_cast<double>(taps_)));
  }

  Var forward(const AttentionInputs& in, const AttentionMask& mask) const override {
    const ExactProducts exact_products;
    require_form(mask.causal);
    const Lengths lengths(mask, in.q.size(0), in.q.size(2), landmarks_);
    Var y;
    if (lengths.longer.defined()) {
      const Tensor valid = mask.valid.defined() ? lengths.longer : Tensor();
      const Var q = segment_means(in.q, landmarks_, valid),
                k = segment_means(in.k, landmarks_, valid), a = softmax(scaled_scores(q, k)),
                z = recomputed([](const Var&of) { return refined(of, transpose_over_norm(of)); },
                               a),
                read = softmax_attention({q, in.k, in.v, Var()}, {false, valid});
      y = softmax_attention({in.q, k, matmul(z, read), Var()}, {false, {}});
    }
    if (lengths.shorter.defined()) {
      const Tensor valid = mask.valid.defined() ? lengths.shorter : Tensor();
      const Var exact = softmax_attention(in, {false, valid});
      y = y.defined() ? add(y, exact) : exact;
    }
    return taps_ == 0 ? y : add(y, centered_convolution(in.v, conv_, mask.valid));
  }

  Var quadratic(const AttentionInputs& in, const AttentionMask& mask) const override {
    require_form(mask.causal);
    const int64_t B = in.q.size(0), N = in.q.size(2);
    const Lengths lengths(mask, B, N, landmarks_);
    const Var k = clear_padding(in.k, mask.valid), v = clear_padding(in.v, mask.valid);
    Var y;
    if (lengths.longer.defined()) y = by_landmarks(in.q, k, v, lengths.longer);
    if (lengths.shorter.defined()) {
      const Var exact =
          naive::softmax_attention(scaled_scores(in.q, k), v, {false, lengths.shorter});
      y = y.defined() ? add(y, exact) : exact;
    }
    return taps_ == 0 ? y : add(y, matmul(band(B, N), v));
  }

  AttentionFlops flops(int64_t) const override {
    const AttentionFlops once = softmax_flops(options_, static_cast<double>(landmarks_));
    const auto taps = static_cast<double>(2 * taps_ * options_.value_size);
    return {2 * once.forward + taps, 2 * once.training + 3 * taps};
  }

  Parameters parameters() const override {
    return conv_.defined() ? Parameters{{"conv", conv_}} : Parameters{};
  }

 private:
  // The definition by full matrices; 0 in sequences without valid positions.
  Var by_landmarks(const Var& q, const Var& k, const Var& v, const Tensor& valid) const {
    const int64_t H = q.size(1), N = q.size(2), m = landmarks_;
    const std::vector<int32_t> lengths = valid.to_vector<int32_t>();
    // The shares of the rows in the means.
    const Var means = constant_matrix(q, m, N, [&](int64_t bh, int64_t c, int64_t n) {
      const int64_t L = lengths[static_cast<size_t>(bh / H)], first = c * L / m,
                    end = (c + 1) * L / m;
      return n >= first && n < end ? 1 / static_cast<double>(end - first) : 0;
    });
    const Var mean_q = matmul(means, q), mean_k = matmul(means, k),
              f = softmax(scaled_scores(q, mean_k)), a = softmax(scaled_scores(mean_q, mean_k));
    const Var z = refined(a, start_by_products(a));
    const Var read = naive::softmax_attention(scaled_scores(mean_q, k), v, {false, valid});
    return matmul(matmul(f, z), read);
  }

  // A^T / n = (I / n) A^T, by the column of the largest sum, which is chosen here.
  static Var start_by_products(const Var& a) {
    const int64_t m = a.size(-1);
    const std::vector<double> values = a.value().to_doubles();
    std::vector<double> chosen(values.size()), ones(values.size(), 1), diagonal(values.size());
    for (size_t first = 0; first < values.size(); first += static_cast<size_t>(m * m)) {
      std::vector<double> sums(static_cast<size_t>(m));
      for (int64_t i = 0; i < m * m; ++i)
        sums[static_cast<size_t>(i % m)] += values[first + static_cast<size_t>(i)];
      const auto column = std::max_element(sums.begin(), sums.end()) - sums.begin();
      for (int64_t i = 0; i < m; ++i) {
        chosen[first + static_cast<size_t>(column * m + i)] = 1;
        diagonal[first + static_cast<size_t>(i * (m + 1))] = 1;
      }
    }
    const auto constant = [&](const std::vector<double>& x) {
      return Var(Tensor::from(x, a.shape(), a.dtype()));
    };
    const Var transposed = matmul(a, constant(diagonal), true),
              norm = matmul(matmul(constant(ones), a), constant(chosen));  // n everywhere
    const Tensor inverse = [&norm] {
      std::vector<double> all = norm.value().to_doubles();
      for (double& n : all) n = 1 / n;
      return Tensor::from(all, norm.shape(), norm.dtype());
    }();
    // 1 / n, whose gradient is -1 / n^2
    return multiply(transposed,
                    Var::from_op("inverse", inverse, {norm}, [inverse](const Tensor& dy) {
                      return ops::scale(ops::multiply(dy, ops::multiply(inverse, inverse)), -1);
                    }));
  }

  // The convolution as matrices [B,H,N,N].
  Var band(int64_t B, int64_t N) const {
    const int64_t H = options_.heads;
    std::vector<double> taps(static_cast<size_t>(taps_ * N * N));
    for (int64_t t = 0; t < taps_; ++t)
      for (int64_t n = 0; n < N; ++n)
        if (const int64_t from = n + t - taps_ / 2; from >= 0 && from < N)
          taps[static_cast<size_t>((t * N + n) * N + from)] = 1;
    const Var one = matmul(conv_, Var(Tensor::from(taps, {taps_, N * N}, options_.dtype)));
    return repeat(reshape(one, {H, N, N}), B);
  }

  int64_t landmarks_, taps_;
  Var conv_;  // [H,T]
};

}  // namespace

AttentionEntry nystrom_entry() {
  using namespace declare;
  return {
      .name = "nystrom",
      .summary = "softmax attention by landmarks, the means of segments",
      .source = "Xiong 2021",
      .settings = {labeled(integer("slots", 64, {1, 65536}, "landmarks")),
                   labeled_if_changed(
                       defining(".attention.conv",
                                integer("conv", 0, {0, 65535},
                                        "rows of a convolution of the values, odd; 0: none")))},
      .make = construct<NystromAttention>,
      .variants = {{{"slots", int64_t{4}}}, {{"slots", int64_t{8}}, {"conv", int64_t{5}}}},
      .cpu_only = true,
      .tensors = {{"conv", "HC", "conv", false, ", with --conv; default: sampled with --seed"}}};
}

}  // namespace linea
