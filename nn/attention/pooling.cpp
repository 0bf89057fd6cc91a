// Two levels of softmax attention, near keys and farther ones in spans:
//
//   y_i = softmax over |i - j| < window of q_i.k_j / sqrt(D)
//       + softmax over spans c of q_i.k'_c / sqrt(D), those with all positions j at |i - j| < outer
//
// k'_c and v'_c are the means or the maxima of the `pool_size` rows from c pool_stride on. Causal: j <= i; a
// row without a span has the first term alone. The recurrent form keeps the last window keys, the last
// pool_size ones, and the spans of outer positions.
// Source: Zhang et al. 2021, "Poolingformer: long document modeling with pooling attention", section 3; there the second
// level reads projections of what the first one returns, here q, k and v.
#include <algorithm>
#include <cmath>

#include "autograd/key_ranges.h"
#include "autograd/ops.h"
#include "autograd/rules/naive_tools.h"
#include "autograd/softmax_attention.h"
#include "nn/attention/builtin.h"
#include "nn/attention/parts.h"

namespace linea {
namespace {

struct Pool {
  int64_t window, outer, size, stride;
  bool largest;
  // The spans within positions [first, end).
  KeyRange spans(int64_t first, int64_t end) const {
    return {(std::max<int64_t>(first, 0) + stride - 1) / stride,
            end < size ? 0 : (end - size) / stride + 1};
  }
  int64_t max_spans() const { return outer / stride + 2; }
};

class PoolingState final : public AttentionState {
 public:
  PoolingState(KeySlots near_keys, KeySlots last_rows, KeySlots of_spans)
      : near(std::move(near_keys)), rows(std::move(last_rows)), spans(std::move(of_spans)) {}
  size_t bytes() const override { return near.bytes() + rows.bytes() + spans.bytes(); }
  KeySlots near, rows, spans;
};

class PoolingAttention final : public Attention {
 public:
  explicit PoolingAttention(const AttentionOptions& options)
      : Attention(options, {.denominators = false,  // a sum of two softmaxes
                            .step_capturable = false,
                            .any_length = false}),
        pool_{options.settings.integer("window"), options.settings.integer("outer"),
              options.settings.integer("pool_size"), options.settings.integer("pool_stride"),
              options.settings.text("pooling") == "max"},
        sets_(
            [pool = pool_](int64_t N) { return pool.spans(0, N).end; },
            [pool = pool_](const SetSize& size, int64_t i, std::vector<KeyRange>& ranges) {
              ranges.push_back(pool.spans(
                  i - pool.outer + 1, std::min(size.valid, size.causal ? i + 1 : i + pool.outer)));
            }) {
    const double spans = 1 / static_cast<double>(pool_.stride);
    traits_.weighs_values = options.settings.text("pooling") != "max";
    traits_.saved_scalars =
        static_cast<double>(options.key_size + options.value_size) * (3 + 4 * spans) + 8;
  }

  Var forward(const AttentionInputs& in, const AttentionMask& mask) const override {
    const ExactProducts exact_products;
    const Var near = softmax_attention(in, mask, pool_.window);
    const int64_t N = in.q.size(2);
    if (pool_.spans(0, N).end == 0) return near;
    return add(near, sparse_attention({in.q, pooled(clear_padding(in.k, mask.valid)),
                                       pooled(clear_padding(in.v, mask.valid)), Var()},
                                      {mask.causal, {}}, sets_.of(N, mask)));
  }

  Var quadratic(const AttentionInputs& in, const AttentionMask& mask) const override {
    const int64_t H = in.q.size(1), N = in.q.size(2);
    const Var near = naive::softmax_attention(
        scaled_scores(in.q, in.k), in.v, mask,
        [this](int64_t, int64_t i, int64_t j) { return std::abs(i - j) < pool_.window; });
    if (pool_.spans(0, N).end == 0) return near;
    const std::vector<int32_t> valid = mask.lengths(in.q.size(0), N);
    const Var far = naive::softmax_attention(
        scaled_scores(in.q, pooled(clear_padding(in.k, mask.valid))),
        pooled(clear_padding(in.v, mask.valid)), {false, {}},
        [&](int64_t bh, int64_t i, int64_t c) {
          const int64_t existing = valid[static_cast<size_t>(bh / H)];
          for (int64_t j = c * pool_.stride; j < c * pool_.stride + pool_.size; ++j)
            if (j >= existing || std::abs(i - j) >= pool_.outer || (mask.causal && j > i))
              return false;
          return true;
        });
    return add(near, far);
  }

  std::unique_ptr<AttentionState> start(int64_t batch, DType dtype) const override {
    const auto slots = [&](int64_t count) { return key_slots(options_, batch, count, dtype); };
    return std::make_unique<PoolingState>(slots(within_length(pool_.window)), slots(pool_.size),
                                          slots(within_length(pool_.max_spans())));
  }

  Tensor step(AttentionState& any_state, const AttentionInputs& in) const override {
    auto& state = dynamic_cast<PoolingState&>(any_state);
    const int64_t now = state.rows.next++, slots = state.spans.keys.size(2);
    const Tensor near = softmax_step(state.near, in, true);
    write_slot(state.rows, now % pool_.size, in);
    const KeyRange all = pool_.spans(0, now + 1);
    if (all.end > 0 && (all.end - 1) * pool_.stride + pool_.size == now + 1) {
      const NoGrad no_gradients;  // its rows are in a ring, and their order does not matter
      const Var k(read_slots(state.rows.keys, 0, pool_.size)),
          v(read_slots(state.rows.values, 0, pool_.size));
      write_slot(state.spans, (all.end - 1) % slots, {in.q, pooled(k), pooled(v), Var()});
      state.spans.positions[static_cast<size_t>((all.end - 1) % slots)] =
          static_cast<int32_t>(all.end - 1);
    }
    const int64_t first = pool_.spans(now - pool_.outer + 1, now + 1).first;
    if (first >= all.end) return near;
    const KeyTilesPtr tiles = slot_tiles(
        static_cast<int64_t>(state.spans.positions.size()),
        [&](int64_t slot) { return state.spans.positions[static_cast<size_t>(slot)] >= first; });
    return ops::add(near, sparse_step(state.spans, in, [&](int64_t, int64_t) { return tiles; }));
  }

  // Both levels.
  AttentionFlops flops(int64_t length) const override {
    const auto N = static_cast<double>(std::max<int64_t>(length, 1)),
               W = std::min(static_cast<double>(pool_.window), N),
               O = std::min(static_cast<double>(pool_.outer), N);
    const double twice_keys =
        W * (2 * N - W + 1) / N + O * (2 * N - O + 1) / N / static_cast<double>(pool_.stride);
    return softmax_flops(options_, twice_keys / 2);
  }

 private:
  Var pooled(const Var& x) const { return pool_spans(x, pool_.size, pool_.stride, pool_.largest); }
  int64_t within_length(int64_t count) const {
    return options_.length == 0 ? count : std::min(count, options_.length);
  }

  Pool pool_;
  KeyRangeSets sets_;
};

}  // namespace

AttentionEntry pooling_entry() {
  using namespace declare;
  const auto size = [](const char* key, int64_t value, const char* help) {
    return labeled_if_changed(integer(key, value, at_least(1), help));
  };
  const Settings small = {{"window", int64_t{20}}, {"outer", int64_t{90}}};
  Settings largest = small;
  largest["pooling"] = std::string("max");
  return {.name = "pooling",
          .summary = "softmax attention over near keys, and over pooled spans of farther ones",
          .source = "Zhang 2021",
          .settings = {size("window", 128, "keys of the first level, itself included"),
                       size("outer", 512, "positions whose spans the second level reads"),
                       size("pool_size", 5, "positions of a span"),
                       size("pool_stride", 4, "positions between the starts of spans"),
                       labeled_if_changed(
                           choice("pooling", "mean", {"mean", "max"}, "what a span becomes"))},
          .make = construct<PoolingAttention>,
          .variants = {small, largest},
          .cpu_only = true};
}

}  // namespace linea
