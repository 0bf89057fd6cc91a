#include "nn/attention/sorted_attention.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "autograd/qkv_layout.h"
#include "nn/attention/parts.h"
#include "tensor/launch.h"
#include "tensor/schedule.h"

namespace linea {
namespace {

constexpr int64_t kSegment = 1024;  // positions
constexpr int64_t kSources = 64;    // blocks that a product packs at a time

// Blocks [block, block + blocks) of queries of some batch heads. Causal: they take from the `sources` blocks
// before the last of them.
struct Segment {
  int64_t first_bh, batch_heads, block, blocks, sources;
};

// Keys or values [BH,2 blocks,b,W] of a segment: sorted and own ones of a block after the other, so that each
// query reads one range; or their gradients.
template <typename T>
class SortedPass {
 public:
  SortedPass(const Tensor& q, const Tensor& k, const Tensor& v, const BlockSorting& sorting,
             const Tensor& valid, int64_t segment, const Tensor& s)
      : q_(q),
        k_(k),
        v_(v),
        s_(s),
        b_(sorting.block),
        N_(q.size(2)),
        together_(std::max<int64_t>((segment > 0 ? segment : kSegment) / b_, 1)),
        causal_(sorting.causal),
        lengths_(AttentionMask{causal_, valid}.lengths(q.size(0), N_)) {}

  void forward(const Tensor& y, const Tensor& log_sums) const {
    each_group([&](int64_t first_bh, int64_t batch_heads) {
      each_segment(first_bh, batch_heads, [&](const Segment& at) {
        const Ranges ranges = ranges_of(at);
        const Tensor keys = joined(k_, at), values = joined(v_, at);
        table_.softmax_attention(context(), shape_of(at, ranges),
                                 {rows(q_, at), all(keys), all(values)}, rows(y, at),
                                 sums(log_sums, at));
      });
    });
  }

  // Gradients are added to dq, dk and dv, which are 0; S becomes its gradient.
  // visit(first, count): after those of some batch heads.
  template <typename Visit>
  void backward(const Tensor& y, const Tensor& log_sums, const Tensor& dy, const Tensor& dq,
                const Tensor& dk, const Tensor& dv, const Visit& visit) const {
    each_group([&](int64_t first_bh, int64_t batch_heads) {
      each_segment(first_bh, batch_heads, [&](const Segment& at) {
        const Ranges ranges = ranges_of(at);
        const Tensor keys = joined(k_, at), values = joined(v_, at),
                     dkeys(keys.shape(), keys.dtype()), dvalues(values.shape(), values.dtype());
        table_.softmax_attention_backward(
            context(), shape_of(at, ranges), {rows(q_, at), all(keys), all(values)}, rows(y, at),
            sums(log_sums, at), rows(dy, at), {rows(dq, at), all(dkeys), all(dvalues)});
        const Tensor dsorted_k = give_back(dkeys, at, dk), dsorted_v = give_back(dvalues, at, dv);
        add_to_ds(dsorted_k, k_, at, 0);
        add_to_ds(dsorted_v, v_, at, 1);
      });
      visit(first_bh, batch_heads);
    });
  }

 private:
  struct Ranges {
    std::vector<int32_t> firsts{}, ends{};
  };

  // visit(first_bh, count): as many as a thread computes by itself, or all threads together.
  template <typename Visit>
  void each_group(const Visit& visit) const {
    const int64_t all = q_.size(0) * q_.size(1);
    const Schedule groups = Schedule::in_cache(all, 1, true, false);
    groups.each([&](int64_t piece, int) {
      const int64_t first = piece * groups.size();
      visit(first, std::min(groups.size(), all - first));
    });
  }
  template <typename Visit>
  void each_segment(int64_t first_bh, int64_t batch_heads, const Visit& visit) const {
    for (int64_t block = 0; block * b_ < N_; block += together_) {
      const int64_t blocks = std::min(together_, (N_ + b_ - 1) / b_ - block);
      visit(Segment{first_bh, batch_heads, block, blocks, causal_ ? block + blocks - 1 : N_ / b_});
    }
  }
  int64_t first_row(const Segment& at) const { return at.block * b_; }
  int64_t row_count(const Segment& at) const {
    return std::min((at.block + at.blocks) * b_, N_) - first_row(at);
  }

  Ranges ranges_of(const Segment& at) const {
    Ranges ranges;
    for (int64_t bh = 0; bh < at.batch_heads; ++bh) {
      const int64_t L = lengths_[static_cast<size_t>((at.first_bh + bh) / q_.size(1))];
      for (int64_t i = first_row(at); i < first_row(at) + row_count(at); ++i) {
        const int64_t first = i / b_ * b_, sorted = 2 * (first - first_row(at)), own = sorted + b_,
                      seen = std::min({causal_ ? i + 1 : L, L, first + b_}) - first;
        const bool exists = first < L, takes = causal_ ? first > 0 : b_ <= L;
        ranges.firsts.push_back(static_cast<int32_t>(exists && !takes ? own : sorted));
        ranges.ends.push_back(static_cast<int32_t>(exists ? own + seen : sorted));
      }
    }
    return ranges;
  }
  SoftmaxShape shape_of(const Segment& at, const Ranges& ranges) const {
    return {{.batch_heads = at.batch_heads,
             .queries = row_count(at),
             .keys = 2 * at.blocks * b_,
             .key_size = q_.size(3),
             .value_size = v_.size(3),
             .valid = {},
             .scale = 1 / std::sqrt(static_cast<double>(q_.size(3)))},
            {0, 0, ranges.firsts.data(), ranges.ends.data()}};
  }

  // Those of a segment of x [B,H,N,W], or all of x [BH,S,W].
  HeadRows<T> rows(const Tensor& x, const Segment& at) const {
    const int64_t W = x.size(3);
    return {x.data<T>() + first_row(at) * W, N_ * W, 0, W, 1, at.first_bh};
  }
  static HeadRows<T> all(const Tensor& x) {
    const int64_t W = x.size(4);
    return {x.data<T>(), x.numel() / x.size(0), 0, W, 1, 0};
  }
  // The blocks of x [B,H,N,W] as rows of b W numbers; every other block of keys [BH,2 blocks,b,W].
  HeadRows<T> blocks_of(const Tensor& x, const Segment& at) const {
    HeadRows<T> blocks = rows(x, at);
    blocks.row = b_ * x.size(3);
    return blocks;
  }
  HeadRows<T> every_other(const Tensor& joined, int64_t first) const {
    const int64_t size = b_ * joined.size(4);
    return {joined.data<T>() + first * size, joined.numel() / joined.size(0), 0, 2 * size, 1, 0};
  }
  // [segments,BH,positions of a segment]
  T* sums(const Tensor& log_sums, const Segment& at) const {
    return log_sums.data<T>() + q_.size(0) * q_.size(1) * first_row(at) +
           at.first_bh * row_count(at);
  }
  // visit(first, count, their columns of S): the sources of a segment, some at a time.
  template <typename Visit>
  void each_sources(const Segment& at, const Visit& visit) const {
    T* const s = s_.data<T>() + (at.first_bh * s_.size(2) + at.block) * s_.size(3);
    for (int64_t first = 0; first < at.sources; first += kSources)
      visit(first, std::min(kSources, at.sources - first), s + first);
  }
  // The numbers of blocks from `first` on.
  T* blocks_from(const Tensor& x, const Segment& at, int64_t first) const {
    return x.data<T>() + (at.first_bh * N_ + first * b_) * x.size(3);
  }

  Tensor joined(const Tensor& x, const Segment& at) const {
    const int64_t W = x.size(3), size = b_ * W, whole = row_count(at) / b_;
    const Tensor result({at.batch_heads, at.blocks, 2, b_, W}, x.dtype());
    each_sources(at, [&](int64_t first, int64_t count, const T* s) {
      const GemmShape shape{.rows = at.blocks,
                            .cols = size,
                            .inner = count,
                            .batch = at.batch_heads,
                            .stride_a = s_.size(2) * s_.size(3),
                            .stride_b = N_ * W,
                            .stride_c = 2 * at.blocks * size,
                            .beta = first > 0 ? 1.0 : 0.0,
                            .lead_a = s_.size(3),
                            .lead_c = 2 * size};
      table_.gemm(context(), shape, s, blocks_from(x, at, first), result.data<T>());
    });
    table_.copy_rows(context(), blocks_of(x, at), every_other(result, 1), at.batch_heads, whole,
                     size);
    if (whole < at.blocks) {  // the rest of the sequence
      Segment rest = at;
      rest.block += whole;
      table_.copy_rows(context(), blocks_of(x, rest), every_other(result, 2 * whole + 1),
                       at.batch_heads, 1, row_count(at) % b_ * W);
    }
    return result;
  }

  // The gradients of joined keys go to those of keys,  dx = S^T d(sorted) + d(own). Returns d(sorted),
  // [BH,blocks,b W].
  Tensor give_back(const Tensor& djoined, const Segment& at, const Tensor& dx) const {
    const int64_t W = dx.size(3), size = b_ * W;
    on_threads(at.batch_heads, [&](int64_t bh, int) {
      for (int64_t n = 0; n < at.blocks; ++n) {
        const int64_t first = (at.block + n) * b_, count = std::min(b_, N_ - first) * W;
        const T* const from = every_other(djoined, 1).at(bh, n);
        T* const to = blocks_of(dx, at).at(bh, n);
        for (int64_t i = 0; i < count; ++i) to[i] += from[i];
      }
    });
    const Tensor dsorted({at.batch_heads, at.blocks, size}, dx.dtype());
    table_.copy_rows(context(), every_other(djoined, 0),
                     head_rows(dsorted.data<T>(), at.blocks, size), at.batch_heads, at.blocks,
                     size);
    each_sources(at, [&](int64_t first, int64_t count, const T* s) {
      const GemmShape shape{.transpose_a = true,
                            .rows = count,
                            .cols = size,
                            .inner = at.blocks,
                            .batch = at.batch_heads,
                            .stride_a = s_.size(2) * s_.size(3),
                            .stride_b = at.blocks * size,
                            .stride_c = N_ * W,
                            .beta = 1,
                            .lead_a = s_.size(3)};
      table_.gemm(context(), shape, s, dsorted.data<T>(), blocks_from(dx, at, first));
    });
    return dsorted;
  }

  // dS = beta dS + d(sorted) x^T, in place of S
  void add_to_ds(const Tensor& dsorted, const Tensor& x, const Segment& at, double beta) const {
    const int64_t W = x.size(3), size = b_ * W;
    each_sources(at, [&](int64_t first, int64_t count, T* s) {
      const GemmShape shape{.transpose_b = true,
                            .rows = at.blocks,
                            .cols = count,
                            .inner = size,
                            .batch = at.batch_heads,
                            .stride_a = at.blocks * size,
                            .stride_b = N_ * W,
                            .stride_c = s_.size(2) * s_.size(3),
                            .beta = beta,
                            .lead_c = s_.size(3)};
      table_.gemm(context(), shape, dsorted.data<T>(), blocks_from(x, at, first), s);
    });
  }

  Tensor q_, k_, v_, s_;
  int64_t b_, N_, together_;
  bool causal_;
  std::vector<int32_t> lengths_;
  const Kernels<T>& table_ = kernels<T>(context().device);
};

}  // namespace

Var sorted_attention(const AttentionInputs& in, const BlockSorting& sorting, const Tensor& valid,
                     int64_t segment) {
  check_heads("sorted_attention", in, valid);
  return with_real(in.q.dtype(), "sorted_attention", [&](auto zero) {
    using T = decltype(zero);
    const Tensor q = in.q.value(), k = in.k.value(), v = in.v.value(),
                 s = sort_blocks(q, k, sorting, valid), y(v.shape(), v.dtype()),
                 log_sums({q.numel() / q.size(3)}, q.dtype());
    SortedPass<T>(q, k, v, sorting, valid, segment, s).forward(y, log_sums);
    return Var::from_op(
        "sorted_attention", y, {in.q, in.k, in.v}, [=](const Tensor& dy) -> Gradients {
          const ExactProducts exact;
          const Tensor dq = Tensor::zeros(q.shape(), q.dtype()),
                       dk = Tensor::zeros(k.shape(), k.dtype()),
                       dv = Tensor::zeros(v.shape(), v.dtype());
          SortedPass<T>(q, k, v, sorting, valid, segment, s)
              .backward(y, log_sums, dy, dq, dk, dv, [&](int64_t first_bh, int64_t count) {
                sort_blocks_backward(q, k, sorting, valid, s, first_bh, count, dq, dk);
              });
          return {dq, dk, dv};
        });
  });
}

}  // namespace linea
