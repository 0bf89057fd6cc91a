// Sparse Sinkhorn attention: softmax over the keys of the block of i and over as many sorted ones, sums of the
// blocks of keys with weights S that a Sinkhorn iteration makes of the scores of blocks (block_sorting.h):
//
//   k~_m = sum_n S_mn k-block_n,  v~_m = sum_n S_mn v-block_n
//   y_i  = softmax over [k~_m (b keys) ; the keys of block m] of q_i.k / sqrt(D),  i in block m
//
// one softmax over both; blocks of b = `block` positions, of which only whole ones are sorted. Causal: S of
// block m is over the blocks n < m, block 0 has its own keys alone, and those of block m are read up to i.
// Training may add `sort_noise` times Gumbel numbers to R. Mixing blocks takes N^2 / b (D + M), so b is best
// near the square root of N. The recurrent form keeps all keys and values; it sorts at the first position of a
// block.
// Source: Tay et al. 2020, "Sparse Sinkhorn attention"; docs/mechanisms.md says what differs.
#include <algorithm>
#include <cmath>

#include "autograd/key_ranges.h"
#include "autograd/ops.h"
#include "autograd/rules/naive_tools.h"
#include "autograd/softmax_attention.h"
#include "nn/attention/builtin.h"
#include "nn/attention/parts.h"
#include "nn/attention/sorted_attention.h"

namespace linea {
namespace {

// Slots 0 .. b - 1 hold the sorted keys, b .. 2 b - 1 those of the current block.
class SinkhornState final : public AttentionState {
 public:
  SinkhornState(KeySlots read, KeySlots all, SortedBlocks of)
      : slots(std::move(read)), past(std::move(all)), sorted(std::move(of)) {}
  size_t bytes() const override { return slots.bytes() + past.bytes() + sorted.bytes(); }
  KeySlots slots, past;
  SortedBlocks sorted;
};

// y = a / b, and 0 where b = 0;  da = dy / b,  db = -dy y / b
Var quotient(const Var& a, const Var& b) {
  std::vector<double> values = b.value().to_doubles();
  for (double& x : values) x = x == 0 ? 0 : 1 / x;
  const Tensor inverse = Tensor::from(values, b.shape(), b.dtype()),
               y = ops::multiply(a.value(), inverse);
  return Var::from_op("quotient", y, {a, b}, [y, inverse](const Tensor& dy) -> Gradients {
    const Tensor da = ops::multiply(dy, inverse);
    return {da, ops::scale(ops::multiply(da, y), -1)};
  });
}

class SinkhornAttention final : public Attention {
 public:
  explicit SinkhornAttention(const AttentionOptions& options)
      : Attention(options, {.softmax_weights = true,
                            .training_capturable = false,
                            .step_capturable = false,
                            .state_growth = 2}),
        block_(options.settings.integer("block")),
        iterations_(options.settings.integer("iterations")),
        scale_(1 / (std::sqrt(static_cast<double>(options.key_size)) *
                    options.settings.real("sort_temperature"))),
        noise_(options.settings.real("sort_noise") / options.settings.real("sort_temperature")) {
    // S, (N / b)^2 numbers, so many more a position from N = `length` to twice as many.
    const auto b = static_cast<double>(block_);
    traits_.saved_scalars += 3 * static_cast<double>(options.length) / (b * b);
  }

  Var forward(const AttentionInputs& in, const AttentionMask& mask) const override {
    const ExactProducts exact_products;
    if (in.q.size(2) <= block_) return softmax_attention(in, mask);
    return sorted_attention(
        {in.q, clear_padding(in.k, mask.valid), clear_padding(in.v, mask.valid), Var()},
        sorting(mask.causal), mask.valid, options_.segment);
  }

  // S by matrices of weights, and one matrix [M b,N] that mixes all keys.
  Var quadratic(const AttentionInputs& in, const AttentionMask& mask) const override {
    const int64_t H = in.q.size(1), N = in.q.size(2), b = block_, rows = blocks(N, b) * b;
    const Var k = clear_padding(in.k, mask.valid), v = clear_padding(in.v, mask.valid);
    if (N <= b) return naive::softmax_attention(scaled_scores(in.q, k), v, mask);
    const std::vector<int32_t> valid = mask.lengths(in.q.size(0), N);
    const auto length = [&](int64_t bh) { return valid[static_cast<size_t>(bh / H)]; };
    const Var s = weights(in.q, k, mask.causal, length);
    const auto same = [&](int64_t, int64_t i, int64_t j) { return i % b == j % b ? 1.0 : 0.0; };
    const auto of_block = [&](int64_t, int64_t i, int64_t m) { return i / b == m ? 1.0 : 0.0; };
    const Var of_keys = constant_matrix(in.q, N, s.size(3), of_block),
              expanded = matmul(matmul(constant_matrix(in.q, rows, s.size(2), of_block), s),
                                of_keys, false, true),
              mix = multiply(expanded, constant_matrix(in.q, rows, N, same));
    const Var keys = join_rows({k, matmul(mix, k)}), values = join_rows({v, matmul(mix, v)});
    return naive::softmax_attention(scaled_scores(in.q, keys), values, {false, {}},
                                    [&](int64_t bh, int64_t i, int64_t key) {
                                      const int64_t L = length(bh), m = i / b;
                                      if (m * b >= L) return false;
                                      if (key >= N)
                                        return (key - N) / b == m && (mask.causal ? m > 0 : L >= b);
                                      return key / b == m && key < L && (!mask.causal || key <= i);
                                    });
  }

  std::unique_ptr<AttentionState> start(int64_t batch, DType dtype) const override {
    return std::make_unique<SinkhornState>(
        key_slots(options_, batch, 2 * block_, dtype), key_slots(options_, batch, 64, dtype),
        SortedBlocks(sorting(true), batch * options_.heads, options_.key_size));
  }

  Tensor step(AttentionState& any_state, const AttentionInputs& in) const override {
    auto& state = dynamic_cast<SinkhornState&>(any_state);
    const int64_t now = state.past.next++, b = block_, first = now / b * b;
    if (const Tensor s = state.sorted.add(in.q.value(), in.k.value()); s.defined()) {
      const NoGrad no_gradients;
      const auto sort = [&](const Tensor& past, Tensor& slots) {
        const Shape own = past.shape().with(2, b), blocks = own.with(2, s.size(3));
        const Tensor all = read_slots(past, 0, first).reshape(blocks.with(3, b * own[3])),
                     sorted = ops::matmul(s, all).reshape(own);
        slots = join_rows({Var(sorted), Var(read_slots(slots, b, b))}).value();
      };
      sort(state.past.keys, state.slots.keys);
      sort(state.past.values, state.slots.values);
    }
    write_slot(state.past, now, in);
    write_slot(state.slots, b + now - first, in);
    const auto slots = static_cast<int64_t>(state.slots.positions.size());
    const KeyTilesPtr tiles = slot_tiles(
        slots, [=](int64_t slot) { return slot >= b ? slot - b <= now - first : first > 0; });
    return sparse_step(state.slots, in, [&](int64_t, int64_t) { return tiles; });
  }

  // Over 2 b keys or as many as there are; with the sums of blocks.
  AttentionFlops flops(int64_t length) const override {
    const auto N = static_cast<double>(std::max<int64_t>(length, 1)),
               b = static_cast<double>(block_),
               rows = static_cast<double>(options_.key_size + options_.value_size),
               sorted = std::max(1 - b / N, 0.0) * b, mixing = sorted * N / (b * b) * rows;
    const AttentionFlops read = softmax_flops(options_, (std::min(b, N) + 1) / 2 + sorted);
    return {read.forward + mixing, read.training + 3 * mixing};
  }

 private:
  static int64_t blocks(int64_t N, int64_t b) { return (N + b - 1) / b; }

  // Noise is a function of the step of training, in which alone there is any.
  void before_step(int64_t step, int64_t) override { step_ = step; }
  void after_step() override { step_ = -1; }
  void skip_step() override { step_ = -1; }

  BlockSorting sorting(bool causal) const {
    return {.block = block_,
            .iterations = iterations_,
            .scale = scale_,
            .causal = causal,
            .noise = step_ < 0 ? 0 : noise_,
            .stream = {options_.seed, Purpose::sorting, static_cast<uint32_t>(options_.layer),
                       static_cast<uint64_t>(std::max<int64_t>(step_, 0))}};
  }

  // S, by the definition: sums of exp R. length(bh): the valid rows.
  template <typename Length>
  Var weights(const Var& q, const Var& k, bool causal, const Length& length) const {
    const int64_t N = q.size(2), b = block_, M = blocks(N, b);
    const auto in_mean = [&](int64_t bh, int64_t m, int64_t j) {
      const int64_t first = causal ? 0 : m * b, L = length(bh),
                    end = std::min(causal ? m * b + 1 : m * b + b, L);
      return m * b < L && j >= first && j < end ? 1 / static_cast<double>(end - first) : 0;
    };
    const auto in_block = [&](int64_t, int64_t n, int64_t j) {
      return j / b == n ? 1.0 / static_cast<double>(b) : 0;
    };
    const auto sources = [&](int64_t bh, int64_t m, int64_t n) {
      const int64_t L = length(bh);
      return m * b < L && (n + 1) * b <= L && (!causal || n < m) ? 1.0 : 0.0;
    };
    const auto summed = [&](int64_t, int64_t m, int64_t other) {
      return !causal || other <= m ? 1.0 : 0.0;
    };
    const Var q_means = matmul(constant_matrix(q, M, N, in_mean), q),
              k_means = matmul(constant_matrix(q, N / b, N, in_block), k);
    Var s = multiply(exp(scale(matmul(q_means, k_means, false, true), scale_)),
                     constant_matrix(q, M, N / b, sources));
    for (int64_t t = 0; t < iterations_; ++t)
      s = normalize(quotient(s, matmul(constant_matrix(q, M, M, summed), s)));
    return iterations_ == 0 ? normalize(s) : s;
  }

  int64_t block_, iterations_;
  double scale_, noise_;
  int64_t step_ = -1;  // of training; -1 outside of one
};

}  // namespace

AttentionEntry sinkhorn_entry() {
  using namespace declare;
  return {
      .name = "sinkhorn",
      .summary =
          "softmax attention over the own block and sums of blocks that are sorted by content",
      .source = "Tay 2020",
      .settings = {labeled(integer("block", 64, {1, 65536}, "positions of a block")),
                   labeled_if_changed(integer("iterations", 5, {0, 1000},
                                              "steps that make rows and columns of S sum to 1")),
                   labeled_if_changed(
                       real("sort_temperature", 0.75, {1e-3, 1e3}, "divides the scores of blocks")),
                   real("sort_noise", 0, {0, 1e3},
                        "times a Gumbel number is added to the scores of blocks, in training")},
      .make = construct<SinkhornAttention>,
      .variants = {{{"block", int64_t{16}}}, {{"block", int64_t{40}}, {"iterations", int64_t{1}}}},
      .cpu_only = true};
}

}  // namespace linea
