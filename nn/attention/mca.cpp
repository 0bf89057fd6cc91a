// Memory-compressed attention: softmax over blocks of `ratio` keys, each compressed into one by a strided
// convolution of its head, and over the keys of the block of i as they are.
//
//   k'_c = sum_{t<r} W_t k_{c r + t},  v'_c = sum_{t<r} U_t v_{c r + t}     W, U [H,r,.,.], at first I / r
//   y_i  = softmax over [k'_c: c < n_i ; k_j: n_i r <= j <= i] of q_i.k / sqrt(D),  n_i = floor((i + 1) / r)
//
// so that each position counts once, and no block is read before its last position; not causal: n is that of
// the last position, and the rest of the keys are read as they are. The recurrent form keeps compressed keys
// and values and those of the current block.
// Source: Liu et al. 2018, "Generating Wikipedia by summarizing long sequences", section 4.2.3; it alternates with
// local attention, `local/mca`.
#include <algorithm>

#include "autograd/key_ranges.h"
#include "autograd/ops.h"
#include "autograd/rules/naive_tools.h"
#include "autograd/slots.h"
#include "nn/attention/builtin.h"
#include "nn/attention/parts.h"

namespace linea {
namespace {

// W [H,r,D,D] with the matrices transposed, as [H,r D,D].
Var transposed(const Var& w) {
  const int64_t H = w.size(0), r = w.size(1), D = w.size(2);
  const auto other = [=](const Tensor& x, const Shape& shape) {
    return ops::permute(x, {{1, H * r, D, D}, {0, 1, 3, 2}, 1}, shape);
  };
  return Var::from_op("transposed", other(w.value(), {H, r * D, D}), {w},
                      [=, shape = w.shape()](const Tensor& dy) { return other(dy, shape); });
}

// The result where there is no whole block; dw = 0.
Var no_blocks(const Var& x, const Var& w) {
  return Var::from_op(
      "no_blocks", Tensor(x.shape().with(2, 0), x.dtype()), {w},
      [shape = w.shape()](const Tensor& dy) { return Tensor::zeros(shape, dy.dtype()); });
}

// x [B,H,N,D] -> x'_c of all whole blocks [B,H,N / r,D].
Var compressed(const Var& x, const Var& w) {
  const int64_t B = x.size(0), H = x.size(1), N = x.size(2), D = x.size(3), r = w.size(1),
                blocks = N / r;
  if (blocks == 0) return no_blocks(x, w);
  const Var whole = columns(reshape(x, {B * H, N * D}), 0, blocks * r * D);
  return head_matmul(reshape(whole, {B, H, blocks, r * D}), transposed(w));
}

// Slots 0 .. r - 1 hold the current block, the others compressed keys.
class McaAttention final : public Attention {
 public:
  explicit McaAttention(const AttentionOptions& options)
      : Attention(options, {.step_capturable = false}),
        ratio_(options.settings.integer("ratio")),
        sets_([r = ratio_](int64_t N) { return N / r + N; },
              [r = ratio_](const SetSize& size, int64_t i, std::vector<KeyRange>& ranges) {
                const int64_t seen = size.causal ? std::min(i + 1, size.valid) : size.valid,
                              blocks = seen / r, plain = size.positions / r;
                ranges.push_back({0, blocks});
                ranges.push_back({plain + blocks * r, plain + seen});
              }) {
    traits_.weighs_values = false;  // compress_v mixes their channels
    traits_.state_growth = 2.0 / static_cast<double>(ratio_);
    // Keys and values with the compressed ones, and the gradients of both.
    traits_.saved_scalars = 5.0 * static_cast<double>(options.key_size + options.value_size) *
                                (1 + 1 / static_cast<double>(ratio_)) +
                            8;
    compress_k_ = start_of(options.key_size);
    compress_v_ = start_of(options.value_size);
  }

  Var forward(const AttentionInputs& in, const AttentionMask& mask) const override {
    const ExactProducts exact_products;
    const Var k = clear_padding(in.k, mask.valid), v = clear_padding(in.v, mask.valid);
    return sparse_attention({in.q, join_rows({compressed(k, compress_k_), k}),
                             join_rows({compressed(v, compress_v_), v}), Var()},
                            {mask.causal, {}}, sets_.of(in.q.size(2), mask));
  }

  // Each block by its r products; one mask over all compressed and plain keys.
  Var quadratic(const AttentionInputs& in, const AttentionMask& mask) const override {
    const int64_t H = in.q.size(1), N = in.q.size(2), r = ratio_;
    const Var k = clear_padding(in.k, mask.valid), v = clear_padding(in.v, mask.valid);
    const Var keys = join_rows({k, by_products(k, compress_k_)}),
              values = join_rows({v, by_products(v, compress_v_)});
    const std::vector<int32_t> valid = mask.lengths(in.q.size(0), N);
    return naive::softmax_attention(
        scaled_scores(in.q, keys), values, {false, {}}, [&](int64_t bh, int64_t i, int64_t key) {
          const int64_t existing = valid[static_cast<size_t>(bh / H)],
                        last = mask.causal ? std::min(i, existing - 1) : existing - 1;
          if (key >= N) return (key - N) * r + r - 1 <= last;  // a whole block that is past
          return key <= last && key / r * r + r - 1 > last;
        });
  }

  std::unique_ptr<AttentionState> start(int64_t batch, DType dtype) const override {
    return std::make_unique<KeySlots>(key_slots(options_, batch, ratio_ + kMoreSlots, dtype));
  }

  Tensor step(AttentionState& any_state, const AttentionInputs& in) const override {
    auto& state = dynamic_cast<KeySlots&>(any_state);
    const int64_t now = state.next++, r = ratio_, blocks = (now + 1) / r;
    write_slot(state, now % r, in, kMoreSlots);
    if ((now + 1) % r == 0) {
      const NoGrad no_gradients;
      const Var k(read_slots(state.keys, 0, r)), v(read_slots(state.values, 0, r));
      write_slot(state, r + blocks - 1,
                 {in.q, compressed(k, compress_k_), compressed(v, compress_v_), Var()}, kMoreSlots);
    }
    const int64_t slots = static_cast<int64_t>(state.positions.size()), plain = (now + 1) % r;
    const KeyTilesPtr tiles = slot_tiles(
        slots, [=](int64_t slot) { return slot < r ? slot < plain : slot < r + blocks; });
    return sparse_step(state, in, [&](int64_t, int64_t) { return tiles; });
  }

  // With the convolutions.
  AttentionFlops flops(int64_t length) const override {
    const auto N = static_cast<double>(length), r = static_cast<double>(ratio_),
               D = static_cast<double>(options_.key_size),
               M = static_cast<double>(options_.value_size), convolutions = 2 * (D * D + M * M);
    const AttentionFlops read = softmax_flops(options_, (N / r + r) / 2);
    return {read.forward + convolutions, read.training + 3 * convolutions};
  }

  Parameters parameters() const override {
    return {{"compress_k", compress_k_}, {"compress_v", compress_v_}};
  }

 private:
  static constexpr int64_t kMoreSlots = 16;

  // I / r
  Var start_of(int64_t size) const {
    std::vector<double> values;
    for (int64_t n = 0; n < options_.heads * ratio_ * size * size; ++n)
      values.push_back(n % size == n / size % size ? 1 / static_cast<double>(ratio_) : 0);
    const Tensor w({options_.heads, ratio_, size, size}, options_.dtype);
    write_values(values, w);
    return Var(w, true);
  }

  // sum_t x_{c r + t} W_t^T, by matrices [blocks,N] that choose the rows of each t.
  Var by_products(const Var& x, const Var& w) const {
    const int64_t B = x.size(0), H = x.size(1), N = x.size(2), D = x.size(3), blocks = N / ratio_;
    if (blocks == 0) return no_blocks(x, w);
    const Var all = transposed(w);  // [H,r D,D]
    Var sum;
    for (int64_t t = 0; t < ratio_; ++t) {
      const Var chooses = constant_matrix(
          x, blocks, N, [&](int64_t, int64_t c, int64_t n) { return n == c * ratio_ + t ? 1 : 0; });
      const Var rows = matmul(chooses, x);
      const Var one =
          reshape(columns(reshape(all, {H, ratio_ * D * D}), t * D * D, D * D), {H, D, D});
      const Var term = matmul(rows, repeat(one, B));
      sum = sum.defined() ? add(sum, term) : term;
    }
    return sum;
  }

  int64_t ratio_;
  KeyRangeSets sets_;
  Var compress_k_, compress_v_;  // W [H,r,D,D], U [H,r,M,M]
};

}  // namespace

AttentionEntry mca_entry() {
  using namespace declare;
  return {.name = "mca",
          .summary = "softmax attention over compressed blocks of keys and the current block",
          .source = "Liu 2018",
          .settings = {labeled(
              defining(".compress_", integer("ratio", 3, {1, 65536}, "keys of a block")))},
          .make = construct<McaAttention>,
          .variants = {{{"ratio", int64_t{3}}}},
          .cpu_only = true,
          .tensors = {{"compress_k", "HrDD", "ratio", false, ", r `ratio`; default: I / r"},
                      {"compress_v", "HrMM", "", false, ", r `ratio`; default: I / r"}}};
}

}  // namespace linea
