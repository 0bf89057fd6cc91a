// The kernels of softmax attention on ranges of keys that no formula gives, against sums over all
// pairs.
#include <gtest/gtest.h>

#include <cmath>

#include "autograd/gradcheck.h"
#include "tensor/kernels.h"

namespace linea {
namespace {

struct RangeProblem {
  int64_t queries, keys, D = 3, M = 5;
  std::vector<int32_t> firsts{}, ends{};  // of each query
};

// Packed sequences of these lengths: a position sees its own, up to itself where causal.
RangeProblem packed_sequences(const std::vector<int64_t>& lengths, bool causal) {
  RangeProblem result{};
  int64_t first = 0;
  for (const int64_t length : lengths) {
    for (int64_t i = first; i < first + length; ++i) {
      result.firsts.push_back(static_cast<int32_t>(first));
      result.ends.push_back(static_cast<int32_t>(causal ? i + 1 : first + length));
    }
    first += length;
  }
  result.queries = result.keys = first;
  return result;
}

struct RangeResults {
  std::vector<double> y, dq, dk, dv;
};

// For two heads: the second sees nothing in the first third of its queries.
RangeResults by_kernels(const RangeProblem& p, const Tensor& q, const Tensor& k, const Tensor& v,
                        const Tensor& dy) {
  std::vector<int32_t> firsts = p.firsts, ends = p.ends;
  for (size_t i = 0; i < p.firsts.size(); ++i) {
    const bool none = i < p.firsts.size() / 3;
    firsts.push_back(none ? 0 : p.firsts[i]);
    ends.push_back(none ? 0 : p.ends[i]);
  }
  const SoftmaxShape shape{{2, p.queries, p.keys, p.D, p.M, {}, 0.7},
                           {0, 0, firsts.data(), ends.data()}};
  const Tensor y(dy.shape(), DType::f64), sums({2, p.queries}, DType::f64),
      dq(q.shape(), DType::f64), dk(k.shape(), DType::f64), dv(v.shape(), DType::f64);
  const auto rows = [](const Tensor& x) {
    return head_rows(x.data<double>(), x.size(1), x.size(2));
  };
  const Kernels<double>& table = kernels<double>(context().device);
  table.softmax_attention(context(), shape, {rows(q), rows(k), rows(v)}, rows(y),
                          sums.data<double>());
  table.softmax_attention_backward(context(), shape, {rows(q), rows(k), rows(v)}, rows(y),
                                   sums.data<double>(), rows(dy), {rows(dq), rows(dk), rows(dv)});
  return {y.to_doubles(), dq.to_doubles(), dk.to_doubles(), dv.to_doubles()};
}

RangeResults by_pairs(const RangeProblem& p, const Tensor& tq, const Tensor& tk, const Tensor& tv,
                      const Tensor& tdy) {
  const std::vector<double> q = tq.to_doubles(), k = tk.to_doubles(), v = tv.to_doubles(),
                            dy = tdy.to_doubles();
  RangeResults r{std::vector<double>(dy.size()), std::vector<double>(q.size()),
                 std::vector<double>(k.size()), std::vector<double>(v.size())};
  const auto dot = [](const double* a, const double* b, int64_t n) {
    double sum = 0;
    for (int64_t d = 0; d < n; ++d) sum += a[d] * b[d];
    return sum;
  };
  for (int64_t head = 0; head < 2; ++head)
    for (int64_t i = head * p.queries / 3; i < p.queries; ++i) {
      const int64_t row = head * p.queries + i;
      const auto at = static_cast<size_t>(i);
      const double *qi = &q[static_cast<size_t>(row * p.D)],
                   *dyi = &dy[static_cast<size_t>(row * p.M)];
      double* const yi = &r.y[static_cast<size_t>(row * p.M)];
      std::vector<double> a;
      double total = 0;
      for (int64_t j = p.firsts[at]; j < p.ends[at]; ++j) {
        a.push_back(
            std::exp(0.7 * dot(qi, &k[static_cast<size_t>((head * p.keys + j) * p.D)], p.D)));
        total += a.back();
      }
      const auto each = [&](const auto& body) {
        for (int64_t j = p.firsts[at]; j < p.ends[at]; ++j)
          body(static_cast<size_t>(head * p.keys + j),
               a[static_cast<size_t>(j - p.firsts[at])] / total);
      };
      const auto D = static_cast<size_t>(p.D), M = static_cast<size_t>(p.M);
      each([&](size_t j, double weight) {
        for (size_t m = 0; m < M; ++m) {
          yi[m] += weight * v[j * M + m];
          r.dv[j * M + m] += weight * dyi[m];
        }
      });
      each([&](size_t j, double weight) {
        const double g = weight * (dot(dyi, &v[j * M], p.M) - dot(dyi, yi, p.M));
        for (size_t d = 0; d < D; ++d) {
          r.dq[static_cast<size_t>(row) * D + d] += 0.7 * g * k[j * D + d];
          r.dk[j * D + d] += 0.7 * g * qi[d];
        }
      });
    }
  return r;
}

void expect_all_near(const std::vector<double>& found, const std::vector<double>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-12) << i;
}

void check_ranges(const RangeProblem& p) {
  const Tensor q = random_tensor({2, p.queries, p.D}, 1), k = random_tensor({2, p.keys, p.D}, 2),
               v = random_tensor({2, p.keys, p.M}, 3), dy = random_tensor({2, p.queries, p.M}, 4);
  const RangeResults found = by_kernels(p, q, k, v, dy), expected = by_pairs(p, q, k, v, dy);
  expect_all_near(found.y, expected.y);
  expect_all_near(found.dq, expected.dq);
  expect_all_near(found.dk, expected.dk);
  expect_all_near(found.dv, expected.dv);
}

TEST(SoftmaxRanges, PackedSequences) {
  for (const bool causal : {true, false})
    check_ranges(packed_sequences({1, 70, 3, 129, 64, 5, 5, 41}, causal));
}

// More keys than queries, gaps that no query sees, queries that see nothing, and ranges of any size.
TEST(SoftmaxRanges, AnyThatDoNotDecrease) {
  RangeProblem p{150, 400};
  int32_t first = 3, end = 3;
  for (int32_t i = 0; i < 150; ++i) {
    if (i % 11 == 0) end += i % 3 == 0 ? 60 : 7;
    if (i % 7 == 3) first = std::min(end, first + i % 5 * 9);
    if (i == 90) first = end = 330;
    p.firsts.push_back(first);
    p.ends.push_back(std::min(end, 400));
  }
  check_ranges(p);
}

}  // namespace
}  // namespace linea
