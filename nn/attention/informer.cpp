// Informer (ProbSparse attention): queries whose scores are uneven read all keys, the others the mean of the values.
//
//   M_i = max_{j in R_i} q_i.k_j - (1/U) sum_{j in R_i} q_i.k_j
//   y_i = softmax attention of q_i over all keys   where M_i is one of the u largest
//       = the mean of v over all keys              elsewhere
//
// R_i are U = u = factor ceil(ln L) random keys of L, at least `factor` and at most L, with repeats. Causal, which the
// paper lacks: L is the length of the model, R_i of the keys j <= i, M_i is compared with M_0 .. M_i, of equals the
// first, and y_i is over j <= i. So no choice changes with what follows; about u (1 + ln(N / u)) rows are selected.
// R_i is a function of (seed, layer, head, i). The choice is a decision. Time O(N U D) for it, and N for each selected
// row; rows are gathered in order. The recurrent form keeps all keys and values, their sum, and the u largest M.
// Source: Zhou et al. 2021, "Informer: beyond efficient Transformer for long sequence time-series forecasting",
// section 3.1 and algorithm 1.
#include <algorithm>
#include <cmath>
#include <functional>
#include <queue>

#include "autograd/decisions.h"
#include "autograd/linear_attention.h"
#include "autograd/ops.h"
#include "autograd/qkv_layout.h"
#include "autograd/rules/naive_tools.h"
#include "autograd/sparse_attention.h"
#include "base/random.h"
#include "nn/attention/builtin.h"
#include "nn/attention/parts.h"
#include "nn/feature_map.h"

namespace linea {
namespace {

// The largest numbers so far, at most `count`.
class Largest {
 public:
  explicit Largest(int64_t count) : count_(static_cast<size_t>(count)) {}
  // Whether x is one of them with those before; equals before it come first.
  bool add(double x) {
    if (numbers_.size() == count_) {
      if (x <= numbers_.top()) return false;
      numbers_.pop();
    }
    numbers_.push(x);
    return true;
  }
  size_t bytes() const { return numbers_.size() * sizeof(double); }

 private:
  size_t count_;
  std::priority_queue<double, std::vector<double>, std::greater<>> numbers_;  // the least on top
};

class InformerState final : public AttentionState {
 public:
  InformerState(KeySlots all, int64_t BH, int64_t M, int64_t rows)
      : slots(std::move(all)),
        largest(static_cast<size_t>(BH), Largest(rows)),
        sums(static_cast<size_t>(BH * M)) {}
  size_t bytes() const override {
    size_t count = slots.bytes() + sums.size() * sizeof(double);
    for (const Largest& one : largest) count += one.bytes();
    return count;
  }
  KeySlots slots;
  std::vector<Largest> largest;  // M of each sequence and head
  std::vector<double> sums;      // of values, [BH,M]
};

// The sets of a head: its selected rows see all keys, or those up to their own.
KeyTilesPtr sets_of_selected(const int32_t* selected, int64_t N, bool causal) {
  KeyTiles::Part part;
  for (int32_t i = 0; i < N; ++i) {
    if (selected[i] > 0) part.queries.push_back(i);
    part.keys.push_back(i);  // in an order: tiles are computed whole where later rows join a block
  }
  constexpr auto kTile = static_cast<size_t>(kKeyTile);
  part.queries.resize(std::max<size_t>((part.queries.size() + kTile - 1) / kTile, 1) * kTile, -1);
  part.sees = [causal](int64_t i, const int32_t* keys, int64_t count) {
    const int64_t seen = causal ? std::clamp<int64_t>(i + 1 - keys[0], 0, count) : count;
    return key_bits(0, seen);
  };
  part.may_see = [causal, order = part.queries](KeyRange rows, KeyRange keys) {
    const int32_t last = *std::max_element(order.begin() + rows.first, order.begin() + rows.end);
    return last >= 0 && (!causal || keys.first <= last);
  };
  return std::make_shared<const KeyTiles>(N, N, std::vector{part});
}

class InformerAttention final : public Attention {
 public:
  explicit InformerAttention(const AttentionOptions& options)
      : Attention(options, {.softmax_weights = true,
                            .decides = true,
                            .training_capturable = false,
                            .step_capturable = false,
                            .rotary = Rotary::inputs,
                            .state_growth = 2}),
        factor_(options.settings.integer("factor")) {
    traits_.heads_differ = true;  // by their random keys
    traits_.details = fmt::format("causal: {} rows, {} keys to choose them by",
                                  count_of(options.length), count_of(options.length));
    // The mean values, which rows with a mean have, and 0 elsewhere; and a few more.
    traits_.saved_scalars = static_cast<double>(2 * options.value_size + 8);
  }

  Var forward(const AttentionInputs& in, const AttentionMask& mask) const override {
    const int64_t H = in.q.size(1), N = in.q.size(2);
    const Tensor selected = decide_rows(in, [&] { return choose(in, mask); });
    const KeyTilesOf sets = [=](int64_t sequence, int64_t head) {
      return sets_of_selected(selected.data<int32_t>() + (sequence * H + head) * N, N, mask.causal);
    };
    // Means as a sum over keys of weight 1, divided by their number; 0 / 0 = 0 for selected rows.
    std::vector<double> others;
    for (const int32_t one : selected.to_vector<int32_t>()) others.push_back(one == 0 ? 1 : 0);
    const Shape weights = in.q.shape().with(-1, 1);
    const AttentionInputs means{Var(Tensor::from(others, weights, in.q.dtype())),
                                Var(Tensor::full(weights, in.q.dtype(), 1.0)), in.v, Var()};
    return add(sparse_attention({in.q, in.k, in.v, Var()}, mask, sets),
               linear_attention(identity_, means, {},
                                {mask.causal, mask.valid, options_.segment, options_.chunk}));
  }

  // Scores of 0 make a mean.
  Var quadratic(const AttentionInputs& in, const AttentionMask& mask) const override {
    const int64_t N = in.q.size(2);
    const std::vector<int32_t> selected =
        decide_rows(in, [&] { return choose_by_loops(in, mask); }).to_vector<int32_t>();
    const Var factors = constant_matrix(in.q, N, N, [&](int64_t bh, int64_t i, int64_t) {
      return selected[static_cast<size_t>(bh * N + i)] > 0 ? 1 : 0;
    });
    const Var scores = multiply(scaled_scores(in.q, in.k), factors);
    return naive::softmax_attention(scores, in.v, mask, [&](int64_t bh, int64_t i, int64_t) {
      return selected[static_cast<size_t>(bh * N + i)] >= 0;
    });
  }

  std::unique_ptr<AttentionState> start(int64_t batch, DType dtype) const override {
    return std::make_unique<InformerState>(key_slots(options_, batch, 64, dtype),
                                           batch * options_.heads, options_.value_size,
                                           count_of(options_.length));
  }

  Tensor step(AttentionState& any_state, const AttentionInputs& in) const override {
    auto& state = dynamic_cast<InformerState&>(any_state);
    const int64_t now = state.slots.next, H = options_.heads;
    add_position(state.slots, in, {});
    const std::vector<double> v = in.v.value().to_doubles();
    for (size_t at = 0; at < v.size(); ++at) state.sums[at] += v[at];
    const std::vector<int32_t> selected =
        decide_rows(in, [&] { return choose_next(state, in); }).to_vector<int32_t>();
    const Tensor read = sparse_step(state.slots, in, [&](int64_t sequence, int64_t head) {
      KeyTiles::Part part;
      const bool reads = selected[static_cast<size_t>(sequence * H + head)] > 0;
      part.sees = [](int64_t, const int32_t*, int64_t count) { return key_bits(0, count); };
      part.may_see = [reads](KeyRange, KeyRange) { return reads; };
      return std::make_shared<const KeyTiles>(1, now + 1, std::vector{part});
    });
    std::vector<double> y = read.to_doubles();
    for (size_t at = 0; at < y.size(); ++at)
      if (selected[at / static_cast<size_t>(options_.value_size)] == 0)
        y[at] = state.sums[at] / static_cast<double>(now + 1);
    return Tensor::from(y, read.shape(), read.dtype());
  }

  // u rows read all keys, or as many a row on average; with the scores for the choice.
  AttentionFlops flops(int64_t length) const override {
    const auto keys = static_cast<double>(std::min(count_of(length), length));
    const double choice = 2 * keys * static_cast<double>(options_.key_size);
    const AttentionFlops read = softmax_flops(options_, keys);
    return {choice + read.forward, choice + read.training};
  }

 private:
  // u and U of L keys.
  int64_t count_of(int64_t L) const {
    const double log = std::log(static_cast<double>(std::max<int64_t>(L, 1)));
    const int64_t count = factor_ * std::max<int64_t>(static_cast<int64_t>(std::ceil(log)), 1);
    return L > 0 ? std::min(count, L) : count;
  }

  Tensor decide_rows(const AttentionInputs& in, const std::function<Tensor()>& make) const {
    return decide({in.q.size(0), in.q.size(1), in.q.size(2)}, 2, make);
  }

  // R_i: `count` of the first `keys` keys.
  std::vector<int32_t> random_keys(int64_t head, int64_t i, int64_t count, int64_t keys) const {
    const RandomStream stream{options_.seed, Purpose::probe,
                              static_cast<uint32_t>(options_.layer * options_.heads + head),
                              static_cast<uint64_t>(i)};
    std::vector<int32_t> chosen;
    RandomWords words{};
    for (int64_t n = 0; n < count; ++n) {  // random_below, with one block for four numbers
      if (n % 4 == 0) words = random_words(stream, static_cast<uint64_t>(n / 4));
      chosen.push_back(
          static_cast<int32_t>(uint64_t{words.word[n % 4]} * static_cast<uint64_t>(keys) >> 32));
    }
    return chosen;
  }

  // M of a row q, of its keys k.at(bh, j); without the factor 1 / sqrt(D), which orders nothing.
  template <typename T>
  double spread(const T* q, const HeadRows<const T>& k, int64_t bh,
                const std::vector<int32_t>& keys) const {
    constexpr size_t kTogether = 4;  // each sum in the order of d
    double largest = 0, sum = 0;
    for (size_t n = 0; n < keys.size(); n += kTogether) {
      const T* rows[kTogether];
      for (size_t m = 0; m < kTogether; ++m)
        rows[m] = k.at(bh, keys[std::min(n + m, keys.size() - 1)]);
      double scores[kTogether] = {};
      for (int64_t d = 0; d < options_.key_size; ++d) {
        const double x = static_cast<float>(q[d]);
        for (size_t m = 0; m < kTogether; ++m) scores[m] += x * static_cast<float>(rows[m][d]);
      }
      for (size_t m = 0; m < kTogether && n + m < keys.size(); ++m) {
        largest = n + m == 0 ? scores[m] : std::max(largest, scores[m]);
        sum += scores[m];
      }
    }
    return largest - sum / static_cast<double>(keys.size());
  }

  Tensor choose(const AttentionInputs& in, const AttentionMask& mask) const {
    const int64_t B = in.q.size(0), H = in.q.size(1), N = in.q.size(2);
    const std::vector<int32_t> valid = mask.lengths(B, N);
    const HeadTensor q(in.q.value()), k(in.k.value());
    const Tensor selected({B, H, N}, DType::i32);
    on_threads(B * H, [&](int64_t bh, int) {
      const int64_t rows = valid[static_cast<size_t>(bh / H)];
      const int64_t count = count_of(mask.causal ? options_.length : rows);
      std::vector<double> spreads;
      with_real(in.q.dtype(), "informer", [&](auto zero) {
        using T = decltype(zero);
        for (int64_t i = 0; i < rows; ++i)
          spreads.push_back(spread<T>(q.rows<T>().at(bh, i), k.rows<T>(), bh,
                                      random_keys(bh % H, i, count, mask.causal ? i + 1 : rows)));
      });
      int32_t* const own = selected.data<int32_t>() + bh * N;
      std::fill_n(own, rows, 0);
      std::fill_n(own + rows, N - rows, -1);
      if (mask.causal) {
        Largest largest(count);
        for (int64_t i = 0; i < rows; ++i) own[i] = largest.add(spreads[static_cast<size_t>(i)]);
        return;
      }
      for (const int32_t i : largest_first(spreads, count)) own[i] = 1;
    });
    return selected;
  }

  // The row after those of a state, its key included.
  Tensor choose_next(InformerState& state, const AttentionInputs& in) const {
    const int64_t H = options_.heads, now = state.slots.next - 1;
    std::vector<int32_t> selected;
    with_real(in.q.dtype(), "informer", [&](auto zero) {
      using T = decltype(zero);
      const HeadRows<const T> q = HeadTensor(in.q.value()).rows<T>(),
                              k = HeadTensor(state.slots.keys).rows<T>();
      for (int64_t bh = 0; bh < in.q.size(0) * H; ++bh)
        selected.push_back(state.largest[static_cast<size_t>(bh)].add(spread<T>(
            q.at(bh, 0), k, bh, random_keys(bh % H, now, count_of(options_.length), now + 1))));
    });
    return Tensor::from(selected, {in.q.size(0), H, 1});
  }

  // The definition: every M against all others, or those before.
  Tensor choose_by_loops(const AttentionInputs& in, const AttentionMask& mask) const {
    const int64_t B = in.q.size(0), H = in.q.size(1), N = in.q.size(2), D = in.q.size(3);
    const std::vector<double> q = in.q.value().to_doubles(), k = in.k.value().to_doubles();
    const std::vector<int32_t> valid = mask.lengths(B, N);
    std::vector<int32_t> selected;
    for (int64_t bh = 0; bh < B * H; ++bh) {
      const int64_t rows = valid[static_cast<size_t>(bh / H)];
      const int64_t count = count_of(mask.causal ? options_.length : rows);
      std::vector<double> spreads;
      for (int64_t i = 0; i < rows; ++i) {
        std::vector<double> scores;
        for (const int32_t j : random_keys(bh % H, i, count, mask.causal ? i + 1 : rows))
          scores.push_back(
              rounded_product(q.data() + (bh * N + i) * D, k.data() + (bh * N + j) * D, D));
        double sum = 0;
        for (const double score : scores) sum += score;
        spreads.push_back(*std::max_element(scores.begin(), scores.end()) -
                          sum / static_cast<double>(count));
      }
      for (size_t i = 0; i < static_cast<size_t>(N); ++i) {
        int64_t before = 0;  // in the order of M
        for (size_t j = 0; j < spreads.size() && i < spreads.size(); ++j) {
          if (mask.causal && j >= i) continue;
          before += spreads[j] > spreads[i] || (spreads[j] == spreads[i] && j < i) ? 1 : 0;
        }
        selected.push_back(i >= spreads.size() ? -1 : before < count ? 1 : 0);
      }
    }
    return Tensor::from(selected, {B, H, N});
  }

  int64_t factor_;
  FeatureMapPtr identity_ = make_feature_map("identity", 0);
};

}  // namespace

AttentionEntry informer_entry() {
  using namespace declare;
  return {
      .name = "informer",
      .summary = "softmax attention of the queries with uneven scores, the mean of v for others",
      .source = "Zhou 2021",
      .settings = {labeled_if_changed(
          integer("factor", 5, {1, 65536},
                  "of ln N: queries that read all keys, and random keys that they are chosen by"))},
      .make = construct<InformerAttention>,
      .variants = {{{"factor", int64_t{3}}}},
      .cpu_only = true};
}

}  // namespace linea
