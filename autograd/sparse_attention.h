// Softmax attention over a set of keys for each query:
//
//   y_i = sum_{j in A_i} w_ij v_j / sum_{j in A_i} w_ij,  w_ij = exp(q_i.k_j / sqrt(D))
//
// Sets that do not depend on q, k and v: time is linear in the 64 x 64 tiles that hold some j of an A_i,
// extra memory is O(N) next to the list of tiles, which all sequences and heads with that set share.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "autograd/key_slots.h"
#include "autograd/qkv_layout.h"
#include "tensor/kernel_shapes.h"

namespace linea {

// A set as its tiles (tensor/kernel_shapes.h).
class KeyTiles {
 public:
  // Positions in an order, -1 for a gap, and what their queries see there: bit n of sees(i, keys, count):
  // whether query i sees the key at position keys[n]. may_see (empty: always): false where no query
  // order[rows] sees a key order[keys], for ranges [first, end) of rows and keys.
  struct Part {
    std::vector<int32_t> queries, keys;  // empty: positions as they are
    std::function<uint64_t(int64_t i, const int32_t* keys, int64_t count)> sees;
    std::function<bool(KeyRange rows, KeyRange keys)> may_see{};
  };
  using Mask = std::array<uint64_t, static_cast<size_t>(kKeyTile)>;
  // What KeyTileSet::Part points to: the tiles of one block of queries after the other. Equal masks
  // exist once.
  struct Lists {
    // A tile of the block of queries that is not ended yet. `whole`: all its queries see all its keys.
    void add_tile(int64_t keys_block, const Mask& mask, bool whole);
    void end_block() { offsets.push_back(static_cast<int32_t>(blocks.size())); }

    std::vector<int32_t> queries, keys, offsets{0}, blocks, masks;
    std::vector<uint64_t> bits;
    std::map<Mask, int32_t> known{};
    int64_t pairs = 0;
  };
  // Each pair of a query and a key in one part at most.
  KeyTiles(int64_t queries, int64_t keys, const std::vector<Part>& parts);
  KeyTiles(int64_t queries, int64_t keys, std::vector<Lists> lists);
  KeyTiles(const KeyTiles&) = delete;  // parts_ point into lists_
  KeyTiles& operator=(const KeyTiles&) = delete;

  KeyTileSet view() const { return {parts_.data(), static_cast<int64_t>(parts_.size())}; }
  // The number of pairs (i, j) with j in A_i.
  int64_t pairs() const { return pairs_; }

 private:
  std::vector<Lists> lists_;
  std::vector<KeyTileSet::Part> parts_;
  int64_t pairs_ = 0;
};
using KeyTilesPtr = std::shared_ptr<const KeyTiles>;
// The sets of a sequence and head, asked for on several threads.
using KeyTilesOf = std::function<KeyTilesPtr(int64_t sequence, int64_t head)>;

// q, k [B,H,N,D], v [B,H,N,M] -> y [B,H,N,M]; or qkv [B,N,3 H D] -> [B,N,H D]. Keys that mask.valid leaves
// out are in no set; whether the mask is causal is for the sets to say. A row without keys is 0. k and v may
// have another number of rows, of which mask.valid says how many exist. scale: of scores; 0: 1 / sqrt(D).
// bias [H,L], L > |i - j|: b_|i-j| is added to scores, where the last query is at the position of the last
// key. Errors: shapes or dtypes that do not go together.
Var sparse_attention(const AttentionInputs& in, const AttentionMask& mask, const KeyTilesOf& sets,
                     double scale = 0, const Var& bias = {});

// Its passes, for ops that have more to do with their results: y [B,H,N,M] and log_sums [BH,N]; the gradients are
// added to `grads`.
void read_sets(const Heads& in, const Tensor& valid, const KeyTilesOf& sets, const Tensor& y,
               const Tensor& log_sums);
void read_sets_backward(const Heads& in, const Tensor& valid, const KeyTilesOf& sets,
                        const Tensor& y, const Tensor& log_sums, const Tensor& dy,
                        const Heads& grads);

// The query of one position, over sets of one query and the slots -> y.
Tensor sparse_step(const KeySlots& state, const AttentionInputs& in, const KeyTilesOf& sets,
                   double scale = 0, const Tensor& bias = {});

}  // namespace linea
