#include "nn/attention/block_sorting.h"

#include <algorithm>
#include <cmath>

#include "tensor/formulas.h"
#include "tensor/ops.h"
#include "tensor/schedule.h"

namespace linea {
namespace {

// log(e^a + e^b), b finite.
double log_add(double a, double b) {
  return std::max(a, b) + std::log1p(std::exp(-std::abs(a - b)));
}

// x <- x - log sum exp x, and that sum.
double subtract_log_sum(double* x, int64_t n) {
  if (n == 0) return 0;
  const double max = *std::max_element(x, x + n);
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += std::exp(x[i] - max);
  const double log_sum = max + std::log(sum);
  for (int64_t i = 0; i < n; ++i) x[i] -= log_sum;
  return log_sum;
}

double dot(const double* a, const double* b, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

void add_scaled(const double* x, double factor, double* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] += factor * x[i];
}

double gumbel(const RandomStream& stream, uint64_t index) {
  return -std::log(-std::log(static_cast<double>(random_uniform(stream, index))));
}

// One head with L valid rows: its means, and log S row after row, of `rows` rows and `columns` columns.
class Head {
 public:
  Head(const BlockSorting& sorting, int64_t L, int64_t D)
      : of_(sorting),
        L_(L),
        D_(D),
        rows_((L + sorting.block - 1) / sorting.block),
        columns_(L / sorting.block) {}

  int64_t rows() const { return rows_; }
  int64_t width(int64_t m) const { return of_.causal ? m : columns_; }
  double* row(int64_t m) { return x_.data() + first(m); }

  // `keep`: also what the backward pass reads.
  template <typename T>
  void sort(const T* q, const T* k, uint64_t head, bool keep) {
    read_means(q, k);
    x_.resize(static_cast<size_t>(first(rows_)));
    if (keep) {
      y_.resize(static_cast<size_t>(first(rows_) * of_.iterations));
      log_sums_.resize(static_cast<size_t>(rows_ * of_.iterations));
    }
    for (int64_t m = 0; m < rows_; ++m)
      for (int64_t n = 0; n < width(m); ++n) {
        double& r = row(m)[n];
        r = of_.scale * dot(&q_[at(m)], &k_[at(n)], D_);
        if (of_.noise > 0)
          r += of_.noise * gumbel(of_.stream, head << 40 | static_cast<uint64_t>(m << 20 | n));
      }
    if (of_.iterations == 0) {
      for (int64_t m = 0; m < rows_; ++m) subtract_log_sum(row(m), width(m));
    } else if (of_.causal) {
      SortedRows all(of_.iterations);
      for (int64_t m = 1; m < rows_; ++m)
        all.next(row(m), m, keep ? y(m, 0) : nullptr, keep ? log_sums(m) : nullptr);
    } else {
      for (int64_t t = 0; t < of_.iterations; ++t) iterate(t, keep);
    }
  }

  // dS, row after row, becomes dR; then gradients are added to those of q and k.
  template <typename T>
  void backward(std::vector<double> dx, T* dq, T* dk) {
    for (size_t i = 0; i < dx.size(); ++i) dx[i] *= std::exp(x_[i]);
    if (of_.iterations == 0)
      for (int64_t m = 0; m < rows_; ++m) rows_backward(row(m), 0, dx.data() + first(m), width(m));
    for (int64_t t = of_.iterations; t-- > 0;) iterate_backward(t, dx.data());
    std::vector<double> dq_means(q_.size()), dk_means(k_.size());
    for (int64_t m = 0; m < rows_; ++m)
      for (int64_t n = 0; n < width(m); ++n) {
        const double dr = of_.scale * dx[first_of(m) + static_cast<size_t>(n)];
        add_scaled(&k_[at(n)], dr, &dq_means[at(m)], D_);
        add_scaled(&q_[at(m)], dr, &dk_means[at(n)], D_);
      }
    add_gradients(dq_means, dk_means, dq, dk);
  }

 private:
  // Row m begins after those before it.
  int64_t first(int64_t m) const { return of_.causal ? m * (m - 1) / 2 : m * columns_; }
  size_t first_of(int64_t m) const { return static_cast<size_t>(first(m)); }
  size_t at(int64_t row) const { return static_cast<size_t>(row * D_); }
  double* y(int64_t m, int64_t t) { return y_.data() + first(m) * of_.iterations + t * width(m); }
  double* log_sums(int64_t m) { return log_sums_.data() + m * of_.iterations; }
  int64_t end_of(int64_t block) const { return std::min((block + 1) * of_.block, L_); }

  template <typename T>
  void read_means(const T* q, const T* k) {
    const int64_t b = of_.block;
    q_.assign(at(rows_), 0);
    k_.assign(at(columns_), 0);
    std::vector<double> sum(at(1));
    for (int64_t j = 0; j < L_; ++j) {
      for (int64_t d = 0; d < D_; ++d) {
        sum[static_cast<size_t>(d)] += static_cast<double>(q[j * D_ + d]);
        if (j / b < columns_)
          k_[at(j / b) + static_cast<size_t>(d)] += static_cast<double>(k[j * D_ + d]);
      }
      const bool ends = of_.causal ? j % b == 0 : j + 1 == end_of(j / b);
      if (!ends) continue;
      const auto count = static_cast<double>(of_.causal ? j + 1 : j % b + 1);
      for (int64_t d = 0; d < D_; ++d)
        q_[at(j / b) + static_cast<size_t>(d)] = sum[static_cast<size_t>(d)] / count;
      if (!of_.causal) std::fill(sum.begin(), sum.end(), 0.0);
    }
    for (double& mean : k_) mean /= static_cast<double>(b);
  }

  // Iteration t over all rows.
  void iterate(int64_t t, bool keep) {
    std::vector<double> sums(static_cast<size_t>(columns_), kNothing<double>);
    for (int64_t m = 0; m < rows_; ++m)
      for (int64_t n = 0; n < columns_; ++n) {
        double& sum = sums[static_cast<size_t>(n)];
        sum = log_add(sum, row(m)[n]);
      }
    for (int64_t m = 0; m < rows_; ++m) {
      for (int64_t n = 0; n < columns_; ++n) row(m)[n] -= sums[static_cast<size_t>(n)];
      if (keep) std::copy_n(row(m), columns_, y(m, t));
      const double log_sum = subtract_log_sum(row(m), columns_);
      if (keep) log_sums(m)[t] = log_sum;
    }
  }

  // y <- y - l, l = log sum exp y:  dy_n = dx_n - exp(y_n - l) sum dx
  static void rows_backward(const double* y, double l, double* dx, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += dx[i];
    for (int64_t i = 0; i < n; ++i) dx[i] -= std::exp(y[i] - l) * sum;
  }

  // y_mn = x_mn - c_mn, e_mn = exp y_mn:  dx_mn = dy_mn - e_mn g_mn,  g_mn = sum_m' dy_m'n exp(c_mn - c_m'n)
  // over the rows m' whose sum has row m. Causal: m' >= m, and exp(c_mn - c_{m+1,n}) = 1 - e_{m+1,n}; else c is
  // one for all rows.
  void iterate_backward(int64_t t, double* dx) {
    std::vector<double> g(static_cast<size_t>(columns_));
    for (int64_t m = 0; m < rows_; ++m)
      rows_backward(y(m, t), log_sums(m)[t], dx + first(m), width(m));
    for (int64_t m = 0; m < rows_ && !of_.causal; ++m)
      for (int64_t n = 0; n < columns_; ++n) g[static_cast<size_t>(n)] += dx[first(m) + n];
    for (int64_t m = rows_; m-- > 0;)
      for (int64_t n = 0; n < width(m); ++n) {
        double &later = g[static_cast<size_t>(n)], &d = dx[first(m) + n];
        const double e = std::exp(y(m, t)[n]);
        if (of_.causal) later += d;
        d -= e * later;
        if (of_.causal) later *= 1 - e;
      }
  }

  template <typename T>
  void add_gradients(const std::vector<double>& dq_means, const std::vector<double>& dk_means,
                     T* dq, T* dk) const {
    const int64_t b = of_.block;
    std::vector<double> later(at(1));
    for (int64_t j = L_; j-- > 0;) {
      if (of_.causal && j % b == 0)
        add_scaled(&dq_means[at(j / b)], 1 / static_cast<double>(j + 1), later.data(), D_);
      for (int64_t d = 0; d < D_; ++d) {
        const size_t mean = at(j / b) + static_cast<size_t>(d);
        dq[j * D_ + d] += static_cast<T>(
            of_.causal ? later[static_cast<size_t>(d)]
                       : dq_means[mean] / static_cast<double>(end_of(j / b) - j / b * b));
        if (j / b < columns_)
          dk[j * D_ + d] += static_cast<T>(dk_means[mean] / static_cast<double>(b));
      }
    }
  }

  const BlockSorting& of_;
  int64_t L_, D_, rows_, columns_;
  std::vector<double> q_, k_;         // means, [rows,D] and [columns,D]
  std::vector<double> x_;             // log S
  std::vector<double> y_, log_sums_;  // of each row, those of its iterations
};

}  // namespace

void SortedRows::next(double* x, int64_t m, double* y, double* log_sums) {
  if (iterations_ == 0) {
    subtract_log_sum(x, m);
    return;
  }
  sums_.resize(static_cast<size_t>(m * iterations_), kNothing<double>);
  for (int64_t t = 0; t < iterations_; ++t) {
    for (int64_t n = 0; n < m; ++n) {
      double& sum = sums_[static_cast<size_t>(n * iterations_ + t)];
      sum = log_add(sum, x[n]);
      x[n] -= sum;
    }
    if (y != nullptr) std::copy_n(x, m, y + t * m);
    const double log_sum = subtract_log_sum(x, m);
    if (log_sums != nullptr) log_sums[t] = log_sum;
  }
}

namespace {

// body(bh, its head) of `count` batch heads.
template <typename T, typename Body>
void each_head(const Tensor& q, const Tensor& k, const BlockSorting& sorting, const Tensor& valid,
               int64_t first, int64_t count, bool keep, const Body& body) {
  const int64_t H = q.size(1), N = q.size(2), D = q.size(3);
  const std::vector<int32_t> lengths = AttentionMask{sorting.causal, valid}.lengths(q.size(0), N);
  on_threads(count, [&](int64_t index, int) {
    const int64_t bh = first + index;
    Head head(sorting, lengths[static_cast<size_t>(bh / H)], D);
    head.sort(q.data<T>() + bh * N * D, k.data<T>() + bh * N * D, static_cast<uint64_t>(bh), keep);
    body(bh, head);
  });
}

}  // namespace

Tensor sort_blocks(const Tensor& q, const Tensor& k, const BlockSorting& sorting,
                   const Tensor& valid) {
  const int64_t B = q.size(0), H = q.size(1), N = q.size(2), b = sorting.block, columns = N / b,
                rows = (N + b - 1) / b;
  const Tensor s = Tensor::zeros({B, H, rows, columns}, q.dtype());
  with_real(q.dtype(), "sort_blocks", [&](auto zero) {
    using T = decltype(zero);
    each_head<T>(q, k, sorting, valid, 0, B * H, false, [&](int64_t bh, Head& head) {
      for (int64_t m = 0; m < head.rows(); ++m)
        std::transform(head.row(m), head.row(m) + head.width(m),
                       s.data<T>() + (bh * rows + m) * columns,
                       [](double x) { return static_cast<T>(std::exp(x)); });
    });
  });
  return s;
}

void sort_blocks_backward(const Tensor& q, const Tensor& k, const BlockSorting& sorting,
                          const Tensor& valid, const Tensor& ds, int64_t first, int64_t count,
                          const Tensor& dq, const Tensor& dk) {
  with_real(q.dtype(), "sort_blocks", [&](auto zero) {
    using T = decltype(zero);
    const int64_t size = q.size(2) * q.size(3), rows = ds.size(2), columns = ds.size(3);
    each_head<T>(q, k, sorting, valid, first, count, true, [&](int64_t bh, Head& head) {
      std::vector<double> dx;
      for (int64_t m = 0; m < head.rows(); ++m) {
        const T* const from = ds.data<T>() + (bh * rows + m) * columns;
        dx.insert(dx.end(), from, from + head.width(m));
      }
      head.backward(std::move(dx), dq.data<T>() + bh * size, dk.data<T>() + bh * size);
    });
  });
}

SortedBlocks::SortedBlocks(const BlockSorting& sorting, int64_t batch_heads, int64_t width)
    : sorting_(sorting),
      width_(width),
      sums_q_(static_cast<size_t>(batch_heads * width)),
      sums_k_(sums_q_.size()),
      k_means_(static_cast<size_t>(batch_heads)),
      rows_(k_means_.size(), SortedRows(sorting.iterations)) {}

Tensor SortedBlocks::add(const Tensor& q, const Tensor& k) {
  const int64_t now = position_++, b = sorting_.block, m = now % b == 0 ? now / b : 0;
  const std::vector<double> of_q = q.to_doubles(), of_k = k.to_doubles();
  add_scaled(of_q.data(), 1, sums_q_.data(), static_cast<int64_t>(of_q.size()));
  std::vector<double> s;
  for (size_t bh = 0; bh < k_means_.size(); ++bh) {
    const size_t own = bh * static_cast<size_t>(width_);
    if (m > 0) {
      std::vector<double> mean(sums_q_.begin() + static_cast<std::ptrdiff_t>(own),
                               sums_q_.begin() + static_cast<std::ptrdiff_t>(own) + width_),
          row(static_cast<size_t>(m));
      for (double& x : mean) x /= static_cast<double>(now + 1);
      for (int64_t n = 0; n < m; ++n)
        row[static_cast<size_t>(n)] =
            sorting_.scale *
            dot(mean.data(), &k_means_[bh][static_cast<size_t>(n * width_)], width_);
      rows_[bh].next(row.data(), m);
      for (const double x : row) s.push_back(std::exp(x));
    }
    add_scaled(&of_k[own], 1, &sums_k_[own], width_);
    if ((now + 1) % b != 0) continue;
    for (size_t d = own; d < own + static_cast<size_t>(width_); ++d) {
      k_means_[bh].push_back(sums_k_[d] / static_cast<double>(b));
      sums_k_[d] = 0;
    }
  }
  return m == 0 ? Tensor() : Tensor::from(s, {q.size(0), q.size(1), 1, m}, q.dtype());
}

size_t SortedBlocks::bytes() const {
  size_t numbers = sums_q_.size() + sums_k_.size(), rows = 0;
  for (const std::vector<double>& means : k_means_) numbers += means.size();
  for (const SortedRows& one : rows_) rows += one.bytes();
  return numbers * sizeof(double) + rows;
}

}  // namespace linea
