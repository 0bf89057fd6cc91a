#include "autograd/sparse_attention.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <map>
#include <numeric>

#include "autograd/qkv_layout.h"

namespace linea {
namespace {

constexpr int64_t kTile = KeyTileSet::kTile;
using Mask = std::array<uint64_t, static_cast<size_t>(kTile)>;

template <typename T>
AttentionRows<T> row_views(const Heads& heads) {
  return {heads.q.rows<std::remove_const_t<T>>(), heads.k.rows<std::remove_const_t<T>>(),
          heads.v.rows<std::remove_const_t<T>>()};
}

// Sequences `some` of H heads each; keeps the sets alive.
struct Sets {
  Sets(const KeyTilesOf& sets, const Sequences& some, int64_t H) {
    for (int64_t bh = 0; bh < some.count * H; ++bh) {
      owned.push_back(sets(some.first + bh / H, bh % H));
      views.push_back(owned.back()->view());
    }
  }
  std::vector<KeyTilesPtr> owned;
  std::vector<KeyTileSet> views;
};

SparseShape shape_of(const Heads& heads, const Tensor& valid, const Sets& sets, double scale) {
  return {.batch_heads = heads.q.batches * heads.q.heads,
          .queries = heads.q.length,
          .keys = heads.k.length,
          .key_size = heads.q.width,
          .value_size = heads.v.width,
          .valid = {valid.data_or_null<int32_t>(), heads.q.heads, 0},
          .scale = scale != 0 ? scale : 1.0 / std::sqrt(static_cast<double>(heads.q.width)),
          .sets = sets.views.data()};
}

}  // namespace

KeyTiles::KeyTiles(int64_t queries, int64_t keys, const std::vector<Part>& parts) {
  for (const Part& part : parts) add(part, queries, keys);
  const auto order = [](const std::vector<int32_t>& positions, int64_t count) {
    return positions.empty()
               ? KeyTileSet::Order{count, nullptr}
               : KeyTileSet::Order{static_cast<int64_t>(positions.size()), positions.data()};
  };
  for (const auto& list : lists_)
    parts_.push_back({order(list->queries, queries), order(list->keys, keys), list->offsets.data(),
                      list->blocks.data(), list->masks.data(), list->bits.data()});
}

void KeyTiles::add(const Part& part, int64_t query_count, int64_t key_count) {
  Lists& lists = *lists_.emplace_back(std::make_unique<Lists>());
  lists.queries = part.queries;
  lists.keys = part.keys;
  const auto positions = [](const std::vector<int32_t>& order, int64_t count) {
    if (!order.empty()) return order;
    std::vector<int32_t> all(static_cast<size_t>(count));
    std::iota(all.begin(), all.end(), 0);
    return all;
  };
  const std::vector<int32_t> queries = positions(part.queries, query_count),
                             keys = positions(part.keys, key_count);
  const auto rows = static_cast<int64_t>(queries.size()),
             columns = static_cast<int64_t>(keys.size());
  std::map<Mask, int32_t> known;
  lists.offsets.push_back(0);
  for (int64_t row = 0; row < rows; row += kTile) {
    const int64_t height = std::min(kTile, rows - row);
    for (int64_t column = 0; column < columns; column += kTile) {
      const int64_t width = std::min(kTile, columns - column);
      if (part.may_see && !part.may_see({row, row + height}, {column, column + width})) continue;
      Mask mask{};
      int64_t pairs = 0;
      for (int64_t i = 0; i < height; ++i) {
        const int32_t query = queries[static_cast<size_t>(row + i)];
        uint64_t& bits = mask[static_cast<size_t>(i)];
        if (query >= 0) bits = part.sees(query, keys.data() + column, width);
        pairs += std::popcount(bits);
      }
      if (pairs == 0) continue;
      pairs_ += pairs;
      lists.blocks.push_back(static_cast<int32_t>(column / kTile));
      if (pairs == height * width) {
        lists.masks.push_back(-1);
        continue;
      }
      const auto [at, is_new] = known.emplace(mask, static_cast<int32_t>(known.size()));
      if (is_new) lists.bits.insert(lists.bits.end(), mask.begin(), mask.end());
      lists.masks.push_back(at->second);
    }
    lists.offsets.push_back(static_cast<int32_t>(lists.blocks.size()));
  }
}

int64_t KeyTiles::tiles() const {
  size_t count = 0;
  for (const auto& list : lists_) count += list->blocks.size();
  return static_cast<int64_t>(count);
}

size_t KeyTiles::bytes() const {
  size_t words = 0, masks = 0;
  for (const auto& list : lists_) {
    words +=
        list->queries.size() + list->keys.size() + list->offsets.size() + 2 * list->blocks.size();
    masks += list->bits.size();
  }
  return words * sizeof(int32_t) + masks * sizeof(uint64_t);
}

// The formulas of forward and backward: tensor/cpu/sparse_attention.cpp.
Var sparse_attention(const AttentionInputs& in, const AttentionMask& mask, const KeyTilesOf& sets,
                     double scale) {
  check_heads("sparse_attention", in, mask.valid);
  // Both passes compute from the saved inputs.
  const Heads saved = Heads::saved(in), heads = Heads::of(in);
  const int64_t H = heads.q.heads;
  const Tensor y = heads.new_output(),
               log_sums({heads.q.batches * H, heads.q.length}, sum_dtype(y.dtype()));
  return with_stored(y.dtype(), "sparse_attention", [&](auto zero) {
    using T = decltype(zero);
    saved.each_group(y.dtype(), [&](const Sequences& some, const Heads& given) {
      const Sets own(sets, some, H);
      kernels<T>(context().device)
          .sparse_attention(context(), shape_of(given, some.of(mask.valid), own, scale),
                            row_views<const T>(given),
                            given.output_heads(some.of(y)).template rows<T>(),
                            some.of(log_sums, H).template data<Accumulator<T>>());
    });
    const Tensor saved_y = ops::cast(y, saved_dtype(y.dtype()));
    return Var::from_op(
        "sparse_attention", y, input_vars(in),
        [saved, saved_y, log_sums, H, valid = mask.valid, sets, scale](const Tensor& dy) {
          const Heads all = saved.new_gradients(dy.dtype());
          saved.each_group(dy.dtype(), [&](const Sequences& some, const Heads& given) {
            const Tensor result = ops::cast(some.of(saved_y), dy.dtype());
            const Heads grads = all.batch(some.first, some.count);
            const Sets own(sets, some, H);
            kernels<T>(context().device)
                .sparse_attention_backward(
                    context(), shape_of(given, some.of(valid), own, scale),
                    row_views<const T>(given), given.output_heads(result).template rows<T>(),
                    some.of(log_sums, H).template data<Accumulator<T>>(),
                    given.output_heads(some.of(dy)).template rows<T>(), row_views<T>(grads));
          });
          return input_gradients(all);
        },
        saved_y);
  });
}

namespace {

template <typename T>
void copy_rows(const HeadTensor& from, int64_t rows, const Tensor& to, int64_t first) {
  kernels<T>(context().device)
      .copy_rows(context(), from.rows<T>(), HeadTensor(to).rows<T>(0, first),
                 from.batches * from.heads, rows, from.width);
}

// The slot of a new position, of which there may be one more than `slots`.
int64_t take_slot(std::vector<int32_t>& positions, int64_t now, const SlotRules& rules) {
  for (size_t slot = 0; rules.has_passed && slot < positions.size(); ++slot)
    if (rules.has_passed(positions[slot], now)) {
      positions[slot] = static_cast<int32_t>(now);
      return static_cast<int64_t>(slot);
    }
  positions.push_back(static_cast<int32_t>(now));
  return static_cast<int64_t>(positions.size()) - 1;
}

}  // namespace

int64_t add_position(KeySlots& state, const AttentionInputs& in, const SlotRules& rules) {
  const Heads position = Heads::of(in);
  const int64_t slot = take_slot(state.positions, state.next++, rules);
  with_stored(position.k.data.dtype(), "sparse_attention", [&](auto zero) {
    using T = decltype(zero);
    for (const auto& [x, slots] :
         {std::pair(&position.k, &state.keys), {&position.v, &state.values}}) {
      const int64_t there = slots->size(2);
      if (slot == there) {
        const int64_t more = rules.growth > 0 ? rules.growth : std::max<int64_t>(there, 64);
        const Tensor larger(slots->shape().with(2, there + more), slots->dtype());
        if (there > 0) copy_rows<T>(*slots, there, larger, 0);
        *slots = larger;
      }
      copy_rows<T>(*x, 1, *slots, slot);
    }
  });
  return slot;
}

Tensor sparse_step(KeySlots& state, const AttentionInputs& in, const SlotRules& rules,
                   const std::function<uint64_t(int64_t head, int64_t i, const int32_t* keys,
                                                int64_t count)>& sees,
                   double scale) {
  const int64_t now = state.next;
  add_position(state, in, rules);
  const Heads position = Heads::of(in);
  const Tensor y = position.new_output();
  const int64_t H = position.q.heads, BH = position.q.batches * H;
  const auto used = static_cast<int64_t>(state.positions.size());
  std::vector<KeyTilesPtr> of_heads;
  for (int64_t head = 0; head < H; ++head) {
    KeyTiles::Part part;
    part.sees = [&](int64_t, const int32_t* slots, int64_t count) {
      return sees(head, now, state.positions.data() + slots[0], count);
    };
    of_heads.push_back(std::make_shared<const KeyTiles>(1, used, std::vector{part}));
  }
  const Sets sets([&](int64_t, int64_t head) { return of_heads[static_cast<size_t>(head)]; },
                  {0, position.q.batches}, H);
  with_stored(y.dtype(), "sparse_attention", [&](auto zero) {
    using T = decltype(zero);
    SparseShape shape = shape_of(position, {}, sets, scale);
    shape.keys = used;
    const Tensor log_sums({BH}, sum_dtype(y.dtype()));
    kernels<T>(context().device)
        .sparse_attention(context(), shape,
                          {position.q.rows<T>(), HeadTensor(state.keys).rows<T>(),
                           HeadTensor(state.values).rows<T>()},
                          position.output_heads(y).template rows<T>(),
                          log_sums.data<Accumulator<T>>());
  });
  return y;
}

}  // namespace linea
