#include "autograd/sparse_attention.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "tensor/launch.h"

namespace linea {
namespace {

// The sizes and sets of a pass over some sequences, of which it keeps the sets alive.
struct SparsePass {
  SparsePass(const KeyTilesOf& sets, const Sequences& some, const Heads& in, const Tensor& valid,
             double scale, const Tensor& bias)
      : owned(static_cast<size_t>(some.count * in.q.heads)),
        shape{attention_shape(in.q, in.k, in.v.width, valid), nullptr} {
    const auto set = [&](int64_t bh, int) {
      owned[static_cast<size_t>(bh)] = sets(some.first + bh / in.q.heads, bh % in.q.heads);
    };
    if (in.q.length > 1) {
      on_threads(shape.batch_heads, set);
    } else {  // less work than waking a thread
      for (int64_t bh = 0; bh < shape.batch_heads; ++bh) set(bh, 0);
    }
    for (const KeyTilesPtr& one : owned) views.push_back(one->view());
    shape.sets = views.data();
    shape.bias_length = bias.defined() ? bias.size(1) : 0;
    if (scale != 0) shape.scale = scale;
  }
  SparsePass(const SparsePass&) = delete;  // shape points into views
  SparsePass& operator=(const SparsePass&) = delete;
  std::vector<KeyTilesPtr> owned;
  std::vector<KeyTileSet> views;
  SparseShape shape;
};

}  // namespace

void KeyTiles::Lists::add_tile(int64_t keys_block, const Mask& mask, bool whole) {
  for (const uint64_t row : mask) pairs += std::popcount(row);
  blocks.push_back(static_cast<int32_t>(keys_block));
  if (whole) return masks.push_back(-1);
  const auto [at, is_new] = known.emplace(mask, static_cast<int32_t>(known.size()));
  if (is_new) bits.insert(bits.end(), mask.begin(), mask.end());
  masks.push_back(at->second);
}

namespace {

KeyTiles::Lists lists_of(const KeyTiles::Part& part, int64_t query_count, int64_t key_count) {
  KeyTiles::Lists lists;
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
  for (int64_t row = 0; row < rows; row += kKeyTile) {
    const int64_t height = std::min(kKeyTile, rows - row);
    for (int64_t column = 0; column < columns; column += kKeyTile) {
      const int64_t width = std::min(kKeyTile, columns - column);
      if (part.may_see && !part.may_see({row, row + height}, {column, column + width})) continue;
      KeyTiles::Mask mask{};
      int64_t pairs = 0;
      for (int64_t i = 0; i < height; ++i) {
        const int32_t query = queries[static_cast<size_t>(row + i)];
        uint64_t& bits = mask[static_cast<size_t>(i)];
        if (query >= 0) bits = part.sees(query, keys.data() + column, width);
        pairs += std::popcount(bits);
      }
      if (pairs > 0) lists.add_tile(column / kKeyTile, mask, pairs == height * width);
    }
    lists.end_block();
  }
  return lists;
}

std::vector<KeyTiles::Lists> lists_of(const std::vector<KeyTiles::Part>& parts, int64_t queries,
                                      int64_t keys) {
  std::vector<KeyTiles::Lists> lists;
  for (const KeyTiles::Part& part : parts) lists.push_back(lists_of(part, queries, keys));
  return lists;
}

}  // namespace

KeyTiles::KeyTiles(int64_t queries, int64_t keys, const std::vector<Part>& parts)
    : KeyTiles(queries, keys, lists_of(parts, queries, keys)) {}

KeyTiles::KeyTiles(int64_t queries, int64_t keys, std::vector<Lists> lists)
    : lists_(std::move(lists)) {
  const auto order = [](const std::vector<int32_t>& positions, int64_t count) {
    return positions.empty()
               ? KeyTileSet::Order{count, nullptr}
               : KeyTileSet::Order{static_cast<int64_t>(positions.size()), positions.data()};
  };
  for (Lists& list : lists_) {
    list.known = {};
    pairs_ += list.pairs;
    parts_.push_back({order(list.queries, queries), order(list.keys, keys), list.offsets.data(),
                      list.blocks.data(), list.masks.data(), list.bits.data()});
  }
}

// The formulas of forward and backward: tensor/cpu/sparse_attention.cpp.
Var sparse_attention(const AttentionInputs& in, const AttentionMask& mask, const KeyTilesOf& sets,
                     double scale, const Var& bias) {
  check_heads("sparse_attention", in, mask.valid, {}, true);
  if (bias.defined())
    ops::require_shape("sparse_attention", "bias", bias.value(), {in.q.size(1), bias.size(1)});
  // Both passes compute from the saved inputs.
  const Heads saved = Heads::saved(in), heads = Heads::of(in);
  const int64_t H = heads.q.heads;
  const Tensor y = heads.new_output(),
               log_sums({heads.q.batches * H, heads.q.length}, sum_dtype(y.dtype())),
               b = bias.value_or_none();
  std::vector<Var> inputs = input_vars(in);
  inputs.push_back(bias);
  saved.each_group(y.dtype(), [&](const Sequences& some, const Heads& given) {
    const SparsePass pass(sets, some, given, some.of(mask.valid), scale, b);
    LINEA_LAUNCH(sparse_attention, y.dtype(), pass.shape, given, ops::data_or_null(b),
                 given.output_heads(some.of(y)), some.of(log_sums, H));
  });
  const Tensor saved_y = ops::cast(y, saved_dtype(y.dtype()));
  return Var::from_op(
      "sparse_attention", y, inputs,
      [saved, saved_y, log_sums, H, valid = mask.valid, sets, scale, b](const Tensor& dy) {
        const Heads all = saved.new_gradients(dy.dtype());
        Tensor db;
        if (b.defined()) db = Tensor({all.q.batches, H, b.size(1)}, dy.dtype());
        saved.each_group(dy.dtype(), [&](const Sequences& some, const Heads& given) {
          const Tensor result = ops::cast(some.of(saved_y), dy.dtype());
          const Heads grads = all.batch(some.first, some.count);
          const SparsePass pass(sets, some, given, some.of(valid), scale, b);
          LINEA_LAUNCH(sparse_attention_backward, dy.dtype(), pass.shape, given,
                       ops::data_or_null(b), given.output_heads(result), some.of(log_sums, H),
                       given.output_heads(some.of(dy)), grads, ops::data_or_null(some.of(db)));
        });
        Gradients gradients = input_gradients(all);
        gradients.emplace_back(db.defined() ? ops::sum_rows(db, b.shape()) : db);
        return gradients;
      },
      saved_y);
}

void read_sets(const Heads& in, const Tensor& valid, const KeyTilesOf& sets, const Tensor& y,
               const Tensor& log_sums) {
  const SparsePass pass(sets, {0, in.q.batches}, in, valid, 0, {});
  LINEA_LAUNCH(sparse_attention, y.dtype(), pass.shape, in, nullptr, HeadTensor(y), log_sums);
}

void read_sets_backward(const Heads& in, const Tensor& valid, const KeyTilesOf& sets,
                        const Tensor& y, const Tensor& log_sums, const Tensor& dy,
                        const Heads& grads) {
  SparsePass pass(sets, {0, in.q.batches}, in, valid, 0, {});
  pass.shape.adds = true;
  LINEA_LAUNCH(sparse_attention_backward, dy.dtype(), pass.shape, in, nullptr, HeadTensor(y),
               log_sums, HeadTensor(dy), grads, nullptr);
}

Tensor sparse_step(const KeySlots& state, const AttentionInputs& in, const KeyTilesOf& sets,
                   double scale, const Tensor& bias) {
  const Heads position = Heads::of(in);
  const Tensor y = position.new_output();
  SparsePass pass(sets, {0, position.q.batches}, position, {}, scale, bias);
  pass.shape.keys = static_cast<int64_t>(state.positions.size());
  const Tensor log_sums({pass.shape.batch_heads}, sum_dtype(y.dtype()));
  LINEA_LAUNCH(sparse_attention, y.dtype(), pass.shape, Heads{position.q, state.keys, state.values},
               ops::data_or_null(bias), position.output_heads(y), log_sums);
  return y;
}

}  // namespace linea
