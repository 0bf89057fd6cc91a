// Reformer: softmax attention over the keys that hash alike. q and k are one, a row is a query, and a key
// k^_j = q_j / |q_j| of length 1 (0 for 0):
//
//   y_i = sum_{j in A_i} a_ij v_j / sum_{j in A_i} a_ij,  a_ij = exp(q_i.k^_j)
//   h_r(x) = argmax of [x R_r, -x R_r]                 of round r; R_r [D, buckets / 2] is normal
//   P_i^r = { j : h_r(j) = h_r(i), 0 <= rank_r(i) - rank_r(j) < window }
//   A_i   = the union of P_i^r without i, or i alone where that is empty
//
// rank_r(i) is the number of earlier positions in the bucket of i, so what i sees never depends on
// what follows; not causal: |rank_r(i) - rank_r(j)| < window. A key in several rounds counts once. The
// hashes are decisions. The recurrent form keeps all keys and values, and reads those of its buckets.
// Source: Kitaev et al. 2020, "Reformer: the efficient Transformer"; docs/mechanisms.md says what differs.
#include <algorithm>

#include "autograd/buckets.h"
#include "autograd/decisions.h"
#include "autograd/ops.h"
#include "autograd/rules/naive_tools.h"
#include "nn/attention/builtin.h"
#include "nn/attention/parts.h"

namespace linea {
namespace {

// The smallest even number of at least 2 length / window, where the setting is 0.
int64_t bucket_count(const AttentionOptions& options) {
  const int64_t given = options.settings.integer("buckets"),
                window = options.settings.integer("window");
  require(
      given <= 1 || given % 2 == 0,
      "`buckets` is {}; it must be even, as a hash and its opposite are two of them, or 1, or 0 "
      "for a number that follows from `length`",
      given);
  if (given > 0) return given;
  return std::max<int64_t>((options.length + window - 1) / window, 1) * 2;
}

// The last window - 1 positions of each bucket, next to all keys and values.
class LshState final : public AttentionState {
 public:
  LshState(KeySlots all, size_t lists) : slots(std::move(all)), members(lists) {}
  size_t bytes() const override {
    size_t count = 0;
    for (const std::vector<int32_t>& bucket : members) count += bucket.size();
    return slots.bytes() + count * sizeof(int32_t);
  }
  KeySlots slots;
  std::vector<std::vector<int32_t>> members;  // [B,H,rounds,buckets]
};

struct Hashing {
  int64_t rounds, buckets, window;

  // The sets of a head whose hashes are [rounds,N].
  KeyTilesPtr tiles(const int32_t* hashes, int64_t N, int64_t valid, bool causal) const {
    const auto w = static_cast<int32_t>(window);
    std::vector<BucketRanges> all;
    for (int64_t round = 0; round < rounds; ++round) {
      const std::vector<int32_t> own(hashes + round * N, hashes + (round + 1) * N);
      std::vector<int32_t> keys = own;
      std::fill(keys.begin() + valid, keys.end(), -1);
      BucketRanges& ranges = all.emplace_back(own, std::move(keys), buckets);
      for (size_t i = 0; i < own.size(); ++i) {
        ranges.first[i] = ranges.before[i] - w + 1;
        ranges.end[i] = ranges.before[i] + (causal ? 1 : w);
      }
    }
    std::vector<int32_t> alone;
    for (int64_t i = 0; i < valid; ++i)
      if (std::all_of(all.begin(), all.end(),
                      [i](const BucketRanges& ranges) { return ranges.others(i) == 0; }))
        alone.push_back(static_cast<int32_t>(i));
    std::vector<KeyTiles::Lists> lists;
    for (size_t round = 0; round < all.size(); ++round) lists.push_back(bucket_tiles(all, round));
    if (!alone.empty()) lists.push_back(own_keys(alone));
    return std::make_shared<const KeyTiles>(N, N, std::move(lists));
  }
};

class LshAttention final : public Attention {
 public:
  explicit LshAttention(const AttentionOptions& options)
      : Attention(options, {.reads_keys = false,
                            .decides = true,
                            .training_capturable = false,
                            .step_capturable = false,
                            .rotary = Rotary::inputs,
                            .state_growth = 2}),
        rounds_(options.settings.integer("rounds")),
        buckets_(bucket_count(options)),
        window_(options.settings.integer("window")),
        redraw_(options.settings.integer("redraw")) {
    traits_.details = fmt::format("{} buckets", buckets_);
    // Keys of length 1 and their gradients, hashes, a sum, and a few more.
    traits_.saved_scalars = static_cast<double>(2 * options.key_size + rounds_ + 4);
    if (buckets_ == 1) return;
    rotations_ = Tensor({options.heads, rounds_, options.key_size, buckets_ / 2}, options.dtype);
    draw(0);
  }

  Var forward(const AttentionInputs& in, const AttentionMask& mask) const override {
    const int64_t B = in.q.size(0), H = in.q.size(1), N = in.q.size(2);
    const std::vector<int32_t> hashes = decide_hashes(in.q.value(), false),
                               valid = mask.lengths(B, N);
    // The backward pass asks for them again, and this layer may be gone then.
    const KeyTilesOf sets = [=, hashing = Hashing{rounds_, buckets_, std::min(window_, N)}](
                                int64_t sequence, int64_t head) {
      const int32_t* const own = hashes.data() + (sequence * H + head) * hashing.rounds * N;
      return hashing.tiles(own, N, valid[static_cast<size_t>(sequence)], mask.causal);
    };
    return sparse_attention({in.q, unit_rows(in.q, 1), in.v, Var()}, mask, sets, 1);
  }

  // By the formulas: hashes by loops, ranks by counting.
  Var quadratic(const AttentionInputs& in, const AttentionMask& mask) const override {
    const int64_t H = in.q.size(1), N = in.q.size(2);
    const std::vector<int32_t> hashes = decide_hashes(in.q.value(), true);
    const std::vector<int32_t> valid = mask.lengths(in.q.size(0), N);
    std::vector<int32_t> ranks;
    for (size_t row = 0; row < hashes.size(); ++row) {
      const int64_t bh = static_cast<int64_t>(row) / N / rounds_, n = static_cast<int64_t>(row) % N;
      const size_t first = row - static_cast<size_t>(n);
      ranks.push_back(0);
      for (int64_t j = 0; j < std::min<int64_t>(n, valid[static_cast<size_t>(bh / H)]); ++j)
        ranks.back() += hashes[first + static_cast<size_t>(j)] == hashes[row];
    }
    const auto sees = [&](int64_t bh, int64_t i, int64_t j) {
      for (int64_t round = 0; round < rounds_; ++round) {
        const auto row = static_cast<size_t>((bh * rounds_ + round) * N + i),
                   key = static_cast<size_t>((bh * rounds_ + round) * N + j);
        if (hashes[row] == hashes[key] && std::abs(ranks[row] - ranks[key]) < window_) return true;
      }
      return false;
    };
    const auto allowed = [&](int64_t bh, int64_t i, int64_t j) {
      if (i != j) return sees(bh, i, j);
      const int64_t count = valid[static_cast<size_t>(bh / H)];
      for (int64_t other = 0; other < (mask.causal ? std::min(i, count) : count); ++other)
        if (other != i && sees(bh, i, other)) return false;
      return true;
    };
    return naive::softmax_attention(matmul(in.q, unit_rows(in.q, 1), false, true), in.v, mask,
                                    allowed);
  }

  std::unique_ptr<AttentionState> start(int64_t batch, DType dtype) const override {
    return std::make_unique<LshState>(
        key_slots(options_, batch, 64, dtype),
        static_cast<size_t>(batch * options_.heads * rounds_ * buckets_));
  }

  Tensor step(AttentionState& any_state, const AttentionInputs& in) const override {
    auto& state = dynamic_cast<LshState&>(any_state);
    const AttentionInputs position{in.q, unit_rows(in.q, 1), in.v, Var()};
    const std::vector<int32_t> hashes = decide_hashes(in.q.value(), false);
    const auto now = static_cast<int32_t>(state.slots.next);
    add_position(state.slots, position, {});
    std::vector<KeyTilesPtr> sets;
    for (size_t bh = 0; bh < hashes.size() / static_cast<size_t>(rounds_); ++bh) {
      KeyTiles::Part part;
      for (size_t row = bh * static_cast<size_t>(rounds_);
           row < (bh + 1) * static_cast<size_t>(rounds_); ++row) {
        std::vector<int32_t>& bucket =
            state.members[row * static_cast<size_t>(buckets_) + static_cast<size_t>(hashes[row])];
        part.keys.insert(part.keys.end(), bucket.begin(), bucket.end());
        bucket.push_back(now);
        if (static_cast<int64_t>(bucket.size()) == window_) bucket.erase(bucket.begin());
      }
      std::sort(part.keys.begin(), part.keys.end());
      part.keys.erase(std::unique(part.keys.begin(), part.keys.end()), part.keys.end());
      if (part.keys.empty()) part.keys.push_back(now);
      part.sees = [](int64_t, const int32_t*, int64_t count) { return key_bits(0, count); };
      sets.push_back(std::make_shared<const KeyTiles>(1, now + 1, std::vector{part}));
    }
    return sparse_step(
        state.slots, position,
        [&](int64_t sequence, int64_t head) {
          return sets[static_cast<size_t>(sequence * options_.heads + head)];
        },
        1);
  }

  // As if buckets had equal sizes, and no key were in two rounds; with the hashes.
  AttentionFlops flops(int64_t length) const override {
    const double size = static_cast<double>(std::max<int64_t>(length, 1)) /
                        static_cast<double>(buckets_),
                 window = std::min(static_cast<double>(window_), size),
                 keys = static_cast<double>(rounds_) * window * (1 - window / (2 * size)),
                 hashes = static_cast<double>(rounds_ * (buckets_ / 2) * 2 * options_.key_size);
    const AttentionFlops read = softmax_flops(options_, keys);
    return {hashes + read.forward, hashes + read.training};
  }

  std::vector<Buffer> buffers() const override {
    if (!rotations_.defined()) return {};
    return {{"rotations", rotations_}};
  }

 private:
  void before_step(int64_t step, int64_t) override {
    if (redraw_ > 0 && step > 0 && step % redraw_ == 0) draw(step);
  }

  // R is a function of seed, layer, head, round, its own size and the step.
  void draw(int64_t step) const {
    if (!rotations_.defined()) return;
    const RandomStream stream{options_.seed, Purpose::hash, static_cast<uint32_t>(options_.layer),
                              static_cast<uint64_t>(step)};
    write_normal(stream, 1, rotations_);
  }

  // [B,H,rounds,N]; by loops: as they are defined.
  std::vector<int32_t> decide_hashes(const Tensor& q, bool by_loops) const {
    const Shape shape{q.size(0), q.size(1), rounds_, q.size(2)};
    const Tensor decided = decide(shape, buckets_, [&] {
      if (buckets_ == 1) return Tensor::zeros(shape, DType::i32);
      return by_loops ? hashes_by_loops(q) : largest_products(q, rotations_, true);
    });
    return decided.to_vector<int32_t>();
  }

  Tensor hashes_by_loops(const Tensor& q) const {
    const int64_t B = q.size(0), H = q.size(1), N = q.size(2), D = q.size(3), half = buckets_ / 2;
    const std::vector<double> x = q.to_doubles(), R = rotations_.to_doubles();
    std::vector<int32_t> hashes;
    for (int64_t row = 0; row < B * H * rounds_ * N; ++row) {
      const int64_t bh = row / N / rounds_, head = bh % H, round = row / N % rounds_, n = row % N;
      double largest = 0;
      int32_t best = -1;
      for (int64_t bucket = 0; bucket < buckets_; ++bucket) {
        double score = 0;
        for (int64_t d = 0; d < D; ++d)
          score +=
              double{static_cast<float>(x[static_cast<size_t>((bh * N + n) * D + d)])} *
              R[static_cast<size_t>(((head * rounds_ + round) * D + d) * half + bucket % half)];
        if (bucket >= half) score = -score;
        if (best >= 0 && score <= largest) continue;
        largest = score;
        best = static_cast<int32_t>(bucket);
      }
      hashes.push_back(best);
    }
    return Tensor::from(hashes, {B, H, rounds_, N});
  }

  int64_t rounds_, buckets_, window_, redraw_;
  Tensor rotations_;  // [H,rounds,D,buckets / 2]
};

}  // namespace

AttentionEntry lsh_entry() {
  using namespace declare;
  return {
      .name = "lsh",
      .summary = "softmax attention over the keys that hash alike, of shared queries and keys",
      .source = "Kitaev 2020",
      .settings =
          {labeled(defining(".rotations", integer("rounds", 4, {1, 1024}, "hashes of a position"))),
           labeled_if_changed(
               defining(".rotations",
                        integer("buckets", 0, {0, 65536},
                                "values of a hash: even, 1 for no hash, 0 for 2 length / window"))),
           labeled_if_changed(
               integer("window", 128, at_least(1), "keys of its bucket that a position sees")),
           integer("redraw", 0, at_least(0), "steps between draws of the hashes; 0: never")},
      .make = construct<LshAttention>,
      .variants = {{{"rounds", int64_t{3}}, {"buckets", int64_t{6}}, {"window", int64_t{20}}}},
      .cpu_only = true,
      .tensors = {{"rotations", "HRDC", "", false,
                   ", C half of the buckets; default: sampled with --seed"}}};
}

}  // namespace linea
