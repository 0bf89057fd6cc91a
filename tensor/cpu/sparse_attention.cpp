// Softmax attention over sets of keys, in tiles of 64 queries and 64 keys. For one (batch, head), with
// a_ij = exp(s q_i.k_j - l_i) and l_i = log sum_j exp(s q_i.k_j) over the set of i:
//
//   y_i = sum_j a_ij v_j
//   dv_j = sum_i a_ij dy_i      g_ij = a_ij (dy_i.v_j - dy_i.y_i)
//   dq_i = s sum_j g_ij k_j     dk_j = s sum_i g_ij q_i
//
// A bias b_|i-j| is added to s q_i.k_j; db_n = sum_{|i-j| = n} g_ij.
//
// A tile is computed as far as its mask reaches and the rest of its weights is 0, so a row's bits do not
// depend on keys that it does not see. Running sums as in softmax_attention.cpp, over the parts of a
// set in order.
#include <bit>
#include <cmath>

#include "tensor/cpu/chunk.h"
#include "tensor/cpu/kernel_tables.h"
#include "tensor/cpu/small_gemm.h"

namespace linea::cpu {
namespace {

constexpr int64_t kBands = kKeyTile / kBand;
using Part = KeyTileSet::Part;

int64_t tiles_of(int64_t length) { return (length + kKeyTile - 1) / kKeyTile; }

// The keys between the first and the last that a row sees; `whole`: it sees all of these.
struct Hull {
  int64_t first, end;
  bool whole;
};
Hull hull_of(uint64_t bits) {
  if (bits == 0) return {0, 0, true};
  const int64_t first = std::countr_zero(bits), end = kKeyTile - std::countl_zero(bits);
  return {first, end, std::popcount(bits) == end - first};
}

// kKeyTile rows of an order, or what is left of it.
struct Block {
  Block(const KeyTileSet::Order& order, int64_t block)
      : first(block * kKeyTile),
        count(std::min(kKeyTile, order.count - first)),
        positions(order.positions) {}
  // -1: a gap.
  int64_t position(int64_t i) const {
    return positions == nullptr ? first + i : positions[first + i];
  }
  int64_t first, count;
  const int32_t* positions;
};

// A block of queries and a tile of its keys; its bounds are those of a Chunk (chunk_rows.h), alike for
// all rows, and all keys, of a band.
struct Tile {
  Tile(const Part& part, int64_t index, int64_t query_rows, const Block& block, int64_t valid)
      : rows(query_rows),
        keys(block.positions == nullptr ? std::clamp<int64_t>(valid - block.first, 0, block.count)
                                        : block.count) {
    uint64_t exists = key_bits(0, keys);
    for (int64_t j = 0; j < keys && block.positions != nullptr; ++j)
      if (block.position(j) < 0 || block.position(j) >= valid) exists &= ~(uint64_t{1} << j);
    const int32_t mask = part.masks[index];
    for (int64_t i = 0; i < rows; ++i)
      bits[i] = exists & (mask < 0 ? ~uint64_t{0} : part.bits[mask * kKeyTile + i]);
    for (int64_t band = 0; band * kBand < rows; ++band) {
      uint64_t any = 0;
      for (int64_t i = band * kBand; i < std::min(rows, (band + 1) * kBand); ++i) any |= bits[i];
      // Which rows are gathered may follow from later positions, as hashes do; the size of a
      // product that rounds by it must not.
      const Hull hull =
          kRoundsBySize && block.positions != nullptr ? Hull{0, keys, false} : hull_of(any);
      froms[band] = hull.first;
      ends[band] = hull.end;
      for (int64_t column = 0; column < kBands; ++column) {
        if ((any >> (column * kBand) & 0xFF) == 0) continue;
        if (end_rows[column] == 0) first_rows[column] = band * kBand;
        end_rows[column] = std::min(rows, (band + 1) * kBand);
      }
    }
  }

  int64_t from(int64_t i) const { return froms[i / kBand]; }
  int64_t seen(int64_t i) const { return ends[i / kBand]; }
  int64_t first_row(int64_t j) const { return first_rows[j / kBand]; }
  int64_t end_row(int64_t j) const { return end_rows[j / kBand]; }

  static constexpr bool rounded = false;
  int64_t rows, keys;
  uint64_t bits[kKeyTile];
  int64_t froms[kBands] = {}, ends[kBands] = {}, first_rows[kBands] = {}, end_rows[kBands] = {};
};

// body(i, position) for the rows of a block that are no gaps.
template <typename Body>
void each_row(const Block& block, const Body& body) {
  for (int64_t i = 0; i < block.count; ++i)
    if (const int64_t position = block.position(i); position >= 0) body(i, position);
}

// Rows of a block times `factor`, contiguous; 0 from position `valid` on, and in gaps.
template <typename T>
Operand<T> gather(const HeadRows<const T>& x, int64_t bh, const Block& block, int64_t width,
                  T factor, int64_t valid, Arena<T>& arena) {
  T* const copy = arena.take(block.count * width);
  std::fill_n(copy, block.count * width, T(0));
  each_row(block, [&](int64_t i, int64_t position) {
    if (position < valid) add_row(x.at(bh, position), copy + i * width, width, factor);
  });
  return plain<T>(copy, width);
}

// Keys or values of a block: where they are, or gathered.
template <typename T>
Operand<T> row_views(const HeadRows<const T>& x, int64_t bh, const Block& block, int64_t width,
                     int64_t valid, Arena<T>& arena) {
  if (block.positions == nullptr) return value_rows(x, bh, block.first);
  return gather(x, bh, block, width, T(1), valid, arena);
}

template <typename T>
void add_rows(const T* x, int64_t bh, const Block& block, int64_t width, T factor,
              const HeadRows<T>& to) {
  each_row(block, [&](int64_t i, int64_t position) {
    add_row(x + i * width, to.at(bh, position), width, factor);
  });
}

// -infinity in place of scores between those that a row sees.
template <typename T>
void hide(uint64_t bits, T* row, const Hull& hull) {
  if (hull.whole) return;
  for (int64_t j = hull.first; j < hull.end; ++j)
    row[j] = (bits >> j & 1) != 0 ? row[j] : kNothing<T>;
}
template <typename T>
void clear_outside(const Hull& hull, int64_t keys, T* row) {
  std::fill(row, row + hull.first, T(0));
  std::fill(row + hull.end, row + keys, T(0));
}

// body(j, |i - j|) of the keys of a tile that the query at `position` sees, and of those between them where keys
// are in the order of their positions.
template <typename Body>
void each_distance(uint64_t bits, int64_t position, const Block& keys, const Body& body) {
  const Hull hull = hull_of(bits);
  if (keys.positions != nullptr) {
    for (int64_t j = hull.first; j < hull.end; ++j)
      if ((bits >> j & 1) != 0) body(j, std::abs(position - keys.position(j)));
    return;
  }
  const int64_t same = position - keys.first, later = std::clamp(same + 1, hull.first, hull.end);
#pragma omp simd
  for (int64_t j = hull.first; j < later; ++j) body(j, same - j);
#pragma omp simd
  for (int64_t j = later; j < hull.end; ++j) body(j, j - same);
}

// Adds the bias of the head to the scores of a tile, and to some that are hidden.
template <typename T>
void add_bias(const SparseShape& shape, const T* bias, int64_t bh, const Block& queries,
              const Block& keys, const Tile& tile, T* scores) {
  if (bias == nullptr) return;
  const T* const own = bias + bh % shape.valid.heads * shape.bias_length;
  each_row(queries, [&](int64_t i, int64_t row) {
    T* const at = scores + i * tile.keys;
    each_distance(tile.bits[i], shape.position(row), keys,
                  [=](int64_t j, int64_t distance) { at[j] += own[distance]; });
  });
}

// One row of a tile: scores become weights. Returns the factor of the sums before.
template <typename T>
T accumulate_row(uint64_t bits, int64_t keys, T* row, T& row_max, T& row_total) {
  const Hull hull = hull_of(bits);
  clear_outside(hull, keys, row);
  if (bits == 0) return T(1);
  hide(bits, row, hull);
  return add_scores(row + hull.first, hull.end - hull.first, row_max, row_total);
}

// The tiles of a block of queries.
template <typename T>
void read_block(const SparseShape& shape, const AttentionRows<const T>& in, const T* bias,
                int64_t bh, const Part& part, int64_t block, T* maxima, T* totals,
                const HeadRows<T>& y, Arena<T> arena) {
  const int64_t D = shape.key_size, M = shape.value_size;
  const int64_t valid = valid_keys(shape.valid, bh, shape.keys);
  const Block queries(part.queries, block);
  const Operand<T> q =
      gather(in.q, bh, queries, D, static_cast<T>(shape.scale), shape.queries, arena);
  T *const scores = arena.take(kKeyTile * kKeyTile), *const sums = arena.take(queries.count * M);
  each_row(queries, [&](int64_t i, int64_t row) { std::copy_n(y.at(bh, row), M, sums + i * M); });
  for (int32_t index = part.offsets[block]; index < part.offsets[block + 1]; ++index) {
    Arena<T> own = arena;
    const Block at(part.keys, part.blocks[index]);
    const Tile tile(part, index, queries.count, at, valid);
    if (tile.keys == 0) continue;
    const Operand<T> k = row_views(in.k, bh, at, D, valid, own),
                     v = row_views(in.v, bh, at, M, valid, own);
    band_products(tile, D, q, k, scores, own);
    add_bias(shape, bias, bh, queries, at, tile, scores);
    each_row(queries, [&](int64_t i, int64_t row) {
      const T shrink =
          accumulate_row(tile.bits[i], tile.keys, scores + i * tile.keys, maxima[row], totals[row]);
      if (shrink != T(1)) scale_row(sums + i * M, M, shrink);
    });
    add_past(tile, M, scores, v, sums, M);
  }
  each_row(queries, [&](int64_t i, int64_t row) { std::copy_n(sums + i * M, M, y.at(bh, row)); });
}

}  // namespace

template <typename T>
void sparse_attention(Context& ctx, const SparseShape& shape, const AttentionRows<const T>& in,
                      const T* bias, const HeadRows<T>& y, T* log_sums) {
  const int64_t BH = shape.batch_heads, N = shape.queries, D = shape.key_size, M = shape.value_size;
  int64_t parts = 0, blocks = 0;  // the largest numbers of a set, of a part
  for (const KeyTileSet* set = shape.sets; set != shape.sets + BH; ++set) {
    parts = std::max(parts, set->count);
    for (const Part* part = set->parts; part != set->parts + set->count; ++part)
      blocks = std::max(blocks, tiles_of(part->queries.count));
  }
  const int64_t each = kKeyTile * (kKeyTile + 3 * D + 2 * M);
  const Workspace<T> totals(ctx, BH * N);
  std::fill_n(log_sums, BH * N, kNothing<T>);
  std::fill_n(totals.data(), BH * N, T(0));
  parallel_rows(ctx, BH * N, M, [&](int64_t row) { std::fill_n(y.at(row / N, row % N), M, T(0)); });
  for (int64_t part = 0; part < parts; ++part)
    parallel_arenas<T>(ctx, BH * blocks, kGrain, each, [&](int64_t item, Arena<T> arena) {
      const int64_t bh = item / blocks, block = item % blocks;
      const KeyTileSet& set = shape.sets[bh];
      if (part < set.count && block < tiles_of(set.parts[part].queries.count))
        read_block(shape, in, bias, bh, set.parts[part], block, log_sums + bh * N,
                   totals.data() + bh * N, y, arena);
    });
  parallel_rows(ctx, BH * N, M, [&](int64_t row) {
    const T total = totals.data()[row];
    log_sums[row] = total == T(0) ? T(0) : log_sums[row] + std::log(total);
    scale_row(y.at(row / N, row % N), M, reciprocal_or_zero(total));
  });
}

template <typename T>
void sparse_attention_backward(Context& ctx, const SparseShape& shape,
                               const AttentionRows<const T>& in, const T* bias,
                               const HeadRows<const T>& y, const T* log_sums,
                               const HeadRows<const T>& dy, const AttentionRows<T>& grads,
                               T* dbias) {
  const int64_t D = shape.key_size, M = shape.value_size, N = shape.queries;
  const T scale = static_cast<T>(shape.scale);
  const int64_t each = kKeyTile * (2 * kKeyTile + 5 * D + 4 * M + std::max(D, M) + 2);
  const auto one = [&](int64_t bh, const Part& part, int64_t block, Arena<T> arena) {
    const int64_t valid = valid_keys(shape.valid, bh, shape.keys);
    const Block queries(part.queries, block);
    const int64_t rows = queries.count;
    const Operand<T> q = gather(in.q, bh, queries, D, scale, N, arena),
                     dys = gather(dy, bh, queries, M, T(1), N, arena);
    T *along = arena.take(rows), *dq = arena.take(rows * D);
    T *weights = arena.take(kKeyTile * kKeyTile), *g = arena.take(kKeyTile * kKeyTile);
    std::fill_n(dq, rows * D, T(0));
    each_row(queries,
             [&](int64_t i, int64_t row) { along[i] = dot(dys.data + i * M, y.at(bh, row), M); });
    for (int32_t index = part.offsets[block]; index < part.offsets[block + 1]; ++index) {
      Arena<T> own = arena;
      const Block at(part.keys, part.blocks[index]);
      const Tile tile(part, index, rows, at, valid);
      if (tile.keys == 0) continue;
      const Operand<T> k = row_views(in.k, bh, at, D, valid, own),
                       v = row_views(in.v, bh, at, M, valid, own);
      band_products(tile, D, q, k, weights, own);
      band_products(tile, M, dys, v, g, own);
      add_bias(shape, bias, bh, queries, at, tile, weights);
      for (int64_t i = 0; i < rows; ++i) {
        T *const a = weights + i * tile.keys, *const ga = g + i * tile.keys;
        const uint64_t seen = queries.position(i) < 0 ? 0 : tile.bits[i];
        const Hull hull = hull_of(seen);
        hide(seen, a, hull);
        if (hull.end > 0)
          weigh_scores(a + hull.first, ga + hull.first, hull.end - hull.first,
                       log_sums[bh * N + queries.position(i)], along[i]);
        clear_outside(hull, tile.keys, a);
        clear_outside(hull, tile.keys, ga);
        if (dbias == nullptr || hull.end == 0) continue;
        T* const db = dbias + bh * shape.bias_length;
        each_distance(seen, shape.position(queries.position(i)), at,
                      [=](int64_t j, int64_t distance) { db[distance] += ga[j]; });
      }
      add_past(tile, D, g, k, dq, D);
      if (at.positions == nullptr) {
        add_future(tile, D, g, q, grads.k.at(bh, at.first), grads.k.row);
        add_future(tile, M, weights, dys, grads.v.at(bh, at.first), grads.v.row);
        continue;
      }
      T *const dk = own.take(kKeyTile * D), *const dv = own.take(kKeyTile * M);
      std::fill_n(dk, tile.keys * D, T(0));
      std::fill_n(dv, tile.keys * M, T(0));
      add_future(tile, D, g, q, dk, D);
      add_future(tile, M, weights, dys, dv, M);
      add_rows(dk, bh, at, D, T(1), grads.k);
      add_rows(dv, bh, at, M, T(1), grads.v);
    }
    add_rows(dq, bh, queries, D, scale, grads.q);
  };
  parallel_arenas<T>(ctx, shape.batch_heads, kGrain, each, [&](int64_t bh, Arena<T> arena) {
    if (dbias != nullptr) std::fill_n(dbias + bh * shape.bias_length, shape.bias_length, T(0));
    if (!shape.adds) clear_gradients(shape, grads, bh);
    for (int64_t part = 0; part < shape.sets[bh].count; ++part)
      for (int64_t block = 0; block < tiles_of(shape.sets[bh].parts[part].queries.count); ++block)
        one(bh, shape.sets[bh].parts[part], block, arena);
  });
}

LINEA_KERNEL_TABLE(SparseAttentionKernels, .sparse_attention = sparse_attention<T>,
                   .sparse_attention_backward = sparse_attention_backward<T>)

}  // namespace linea::cpu
