#include "nn/attention/hamming_clusters.h"

#include <algorithm>
#include <bit>

#include "base/random.h"
#include "tensor/schedule.h"

namespace linea {
namespace {

using Hashes = std::vector<uint64_t>;

// Bit b: h_b of each row of q [rows,D]; planes [bits,D+1] as columns, [D+1,bits].
template <typename T>
Hashes hashes_of(const T* q, int64_t rows, int64_t D, const std::vector<double>& columns) {
  const auto bits = static_cast<int64_t>(columns.size()) / (D + 1);
  Hashes hashes(static_cast<size_t>(rows));
  std::vector<double> sums(static_cast<size_t>(bits));
  for (int64_t i = 0; i < rows; ++i) {
    std::fill(sums.begin(), sums.end(), 0.0);
    for (int64_t d = 0; d <= D; ++d) {
      const double x = d < D ? static_cast<double>(static_cast<float>(q[i * D + d])) : 1.0;
      const double* const column = columns.data() + d * bits;
      double* const to = sums.data();
#pragma omp simd
      for (int64_t b = 0; b < bits; ++b) to[b] += x * column[b];
    }
    uint64_t hash = 0;
    for (size_t b = 0; b < sums.size(); ++b) hash |= uint64_t{sums[b] > 0} << b;
    hashes[static_cast<size_t>(i)] = hash;
  }
  return hashes;
}

// The number of bits that are 1: without instructions that not all processors have, in vectors.
uint64_t ones_in(uint64_t x) {
  x -= x >> 1 & 0x5555555555555555u;
  x = (x & 0x3333333333333333u) + (x >> 2 & 0x3333333333333333u);
  x = (x + (x >> 4)) & 0x0F0F0F0F0F0F0F0Fu;
  x += x >> 8;
  x += x >> 16;
  return (x + (x >> 32)) & 0x7F;
}

// The nearest centroid of each row, of equals the first.
void assign(const Hashes& hashes, const Hashes& centroids, int32_t* clusters) {
  const size_t C = centroids.size();
  std::vector<uint64_t> distances(C);
  for (size_t i = 0; i < hashes.size(); ++i) {
    const uint64_t hash = hashes[i];
#pragma omp simd
    for (size_t c = 0; c < C; ++c) distances[c] = ones_in(hash ^ centroids[c]);
    clusters[i] = static_cast<int32_t>(std::min_element(distances.begin(), distances.end()) -
                                       distances.begin());
  }
}

// The centroids of clusters of rows; random(c): the row that an empty one begins anew from.
template <typename Random>
Hashes centroids_of(const Hashes& hashes, const int32_t* clusters, size_t count,
                    const Random& random) {
  constexpr auto kBits = static_cast<size_t>(kMaxHashBits);
  std::vector<int64_t> ones(count * kBits), sizes(count);
  for (size_t i = 0; i < hashes.size(); ++i) {
    const auto c = static_cast<size_t>(clusters[i]);
    ++sizes[c];
    for (uint64_t left = hashes[i]; left != 0; left &= left - 1)
      ++ones[c * kBits + static_cast<size_t>(std::countr_zero(left))];
  }
  Hashes centroids(count);
  for (size_t c = 0; c < count; ++c) {
    if (sizes[c] == 0) {
      centroids[c] = hashes[static_cast<size_t>(random(c))];
      continue;
    }
    for (size_t b = 0; b < kBits; ++b)
      centroids[c] |= uint64_t{2 * ones[c * kBits + b] > sizes[c]} << b;
  }
  return centroids;
}

}  // namespace

int64_t new_centroid(const HammingClusters& of, int64_t heads, int64_t head, int64_t iteration,
                     int64_t c, int64_t rows) {
  const RandomStream stream{of.seed, Purpose::cluster,
                            static_cast<uint32_t>(of.layer * heads + head),
                            static_cast<uint64_t>(iteration)};
  return random_below(stream, static_cast<uint64_t>(c), static_cast<uint32_t>(rows));
}

Tensor hamming_clusters(const Tensor& q, const Tensor& planes, const std::vector<int32_t>& valid,
                        const HammingClusters& of) {
  const int64_t B = q.size(0), H = q.size(1), N = q.size(2), D = q.size(3), bits = planes.size(1);
  const std::vector<double> all = planes.to_doubles();
  const Tensor clusters({B, H, N}, DType::i32);
  on_threads(B * H, [&](int64_t bh, int) {
    const int64_t head = bh % H, rows = valid[static_cast<size_t>(bh / H)];
    int32_t* const own = clusters.data<int32_t>() + bh * N;
    std::fill_n(own, N, -1);
    if (rows == 0) return;
    std::vector<double> columns;
    for (int64_t d = 0; d <= D; ++d)
      for (int64_t b = 0; b < bits; ++b)
        columns.push_back(
            static_cast<float>(all[static_cast<size_t>((head * bits + b) * (D + 1) + d)]));
    const Hashes hashes = with_real(q.dtype(), "clusters", [&](auto zero) {
      using T = decltype(zero);
      return hashes_of(q.data<T>() + bh * N * D, rows, D, columns);
    });
    Hashes centroids(hashes.begin(), hashes.begin() + std::min(of.count, rows));
    assign(hashes, centroids, own);
    for (int64_t iteration = 1; iteration <= of.iterations; ++iteration) {
      bool is_random = false;
      Hashes next = centroids_of(hashes, own, centroids.size(), [&](size_t c) {
        is_random = true;
        return new_centroid(of, H, head, iteration, static_cast<int64_t>(c), rows);
      });
      if (next == centroids && !is_random) break;  // so it stays
      centroids = std::move(next);
      assign(hashes, centroids, own);
    }
  });
  return clusters;
}

}  // namespace linea
