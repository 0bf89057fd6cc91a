#include "nn/attention/centroids.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "autograd/buckets.h"
#include "autograd/ops.h"
#include "nn/over_ranks.h"

namespace linea {
namespace {

// Writes x_c / |x_c| into the rows of `into`; of x_c = 0 nothing.
void write_unit_rows(const Tensor& into, const std::vector<double>& x) {
  std::vector<double> rows = into.to_doubles();
  const auto D = static_cast<size_t>(into.size(-1));
  for (size_t row = 0; row < rows.size(); row += D) {
    double squares = 0;
    for (size_t d = row; d < row + D; ++d) squares += x[d] * x[d];
    for (size_t d = row; squares > 0 && d < row + D; ++d) rows[d] = x[d] / std::sqrt(squares);
  }
  write_values(rows, into);
}

// The setting `clusters`; where it is 0, the square root of the length, rounded up.
int64_t cluster_count(const AttentionOptions& options) {
  const int64_t given = options.settings.integer("clusters");
  if (given > 0) return given;
  return static_cast<int64_t>(
      std::ceil(std::sqrt(static_cast<double>(std::max<int64_t>(options.length, 1)))));
}

}  // namespace

CentroidAttention::CentroidAttention(const AttentionOptions& options, AttentionTraits traits)
    : Attention(options, std::move(traits)),
      clusters_(cluster_count(options)),
      window_(options.settings.integer("window")),
      local_heads_(options.settings.integer("local_heads")),
      mu_(Tensor::zeros({options.heads, clusters_, options.key_size}, options.dtype)),
      decay_(options.settings.real("centroid_decay")),
      commitment_(options.settings.real("commitment")),
      m_(Tensor::zeros(mu_.shape(), options.dtype)) {
  require(local_heads_ <= options.heads, "`local_heads` is {}; there are {} `heads`", local_heads_,
          options.heads);
  traits_.softmax_weights = traits_.decides = true;
  traits_.recomputable = traits_.training_capturable = false;  // the host counts rows of clusters
  traits_.rotary = Rotary::inputs;
  traits_.details = fmt::format("{} clusters", clusters_);
  const RandomStream stream{options.seed, Purpose::cluster, static_cast<uint32_t>(options.layer),
                            0};
  std::vector<double> values;
  for (int64_t n = 0; n < mu_.numel(); ++n)
    values.push_back(random_normal(stream, static_cast<uint64_t>(n)));
  write_unit_rows(mu_, values);
  buffers_changed();
}

void CentroidAttention::buffers_changed() {
  const int64_t H = mu_.size(0), C = mu_.size(1), D = mu_.size(2);
  columns_ = ops::permute(mu_, {{H, 1, C, D}, {0, 1, 3, 2}, 1}, {H, 1, D, C});
}

Tensor CentroidAttention::nearest(const Tensor& x) const {
  const int64_t H = mu_.size(0), N = x.size(2);
  const Tensor chosen = largest_products(x, columns_, false);
  for (int64_t bh = 0; bh < x.size(0) * H; ++bh)
    if (bh % H < local_heads_) std::fill_n(chosen.data<int32_t>() + bh * N, N, 0);
  return chosen;
}

Tensor CentroidAttention::nearest_by_loops(const Tensor& x) const {
  const int64_t B = x.size(0), H = x.size(1), N = x.size(2), D = x.size(3), C = clusters_;
  const std::vector<double> rows = x.to_doubles(), mu = mu_.to_doubles();
  std::vector<int32_t> chosen;
  for (int64_t row = 0; row < B * H * N; ++row) {
    const int64_t head = row / N % H;
    double largest = 0;
    int32_t best = 0;
    for (int64_t c = 0; head >= local_heads_ && c < C; ++c) {
      double product = 0;
      for (int64_t d = 0; d < D; ++d)
        product += double{static_cast<float>(rows[static_cast<size_t>(row * D + d)])} *
                   mu[static_cast<size_t>((head * C + c) * D + d)];
      if (c > 0 && product <= largest) continue;
      largest = product;
      best = static_cast<int32_t>(c);
    }
    chosen.push_back(best);
  }
  return Tensor::from(chosen, {B, H, 1, N});
}

// |x^ - mu|^2 = 2 (1 - x^.mu)
Var CentroidAttention::commitment(const Var& x, const AttentionMask& mask) {
  const int64_t H = mu_.size(0), N = x.size(2), routed = H - local_heads_;
  sums_.resize(static_cast<size_t>(mu_.numel()));
  if (routed == 0) return {};
  const std::vector<int32_t> valid = mask.lengths(x.size(0), N);
  const Var unit = unit_rows(clear_padding(x, mask.valid), 1);
  const std::vector<double> rows = unit.value().to_doubles(), mu = mu_.to_doubles();
  const std::vector<int32_t> clusters = nearest(x.value()).to_vector<int32_t>();
  const auto D = static_cast<size_t>(mu_.size(2));
  std::vector<double> own(rows.size());  // mu of each row; 0 in heads without clusters
  for (size_t row = 0; row < clusters.size(); ++row) {
    const int64_t n = static_cast<int64_t>(row) % N, bh = static_cast<int64_t>(row) / N,
                  head = bh % H;
    if (head < local_heads_ || n >= valid[static_cast<size_t>(bh / H)]) continue;
    const size_t from = static_cast<size_t>(head * clusters_ + clusters[row]) * D;
    for (size_t d = 0; d < D; ++d) {
      own[row * D + d] = mu[from + d];
      sums_[from + d] += rows[row * D + d];
    }
  }
  const int64_t size = unit.value().numel();
  const Var products =
      matmul(reshape(unit, {1, size}), Var(Tensor::from(own, {size, 1}, x.dtype())));
  const auto all = static_cast<double>(
      routed * std::max<int64_t>(std::accumulate(valid.begin(), valid.end(), int64_t{0}), 1));
  return add(Var(Tensor::full({1}, x.dtype(), 2 * commitment_)),
             scale(reshape(products, {1}), -2 * commitment_ / all));
}

Var CentroidAttention::auxiliary_loss(const AttentionInputs& in, const AttentionMask& mask) {
  const Var of_q = commitment(in.q, mask), of_k = commitment(in.k, mask);
  return of_q.defined() ? add(of_q, of_k) : of_q;
}

void CentroidAttention::after_step() {
  if (sums_.empty()) return;
  add_over_ranks(sums_);
  std::vector<double> m = m_.to_doubles();
  const bool first = std::all_of(m.begin(), m.end(), [](double x) { return x == 0; });
  for (size_t i = 0; i < m.size(); ++i)
    m[i] = first ? sums_[i] : decay_ * m[i] + (1 - decay_) * sums_[i];
  skip_step();
  write_values(m, m_);
  write_unit_rows(mu_, m);
  buffers_changed();
}

}  // namespace linea
