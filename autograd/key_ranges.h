// Sets of keys that are a few ranges for each query, as tiles (autograd/sparse_attention.h).
#pragma once

#include <compare>
#include <functional>
#include <map>
#include <mutex>
#include <vector>

#include "autograd/sparse_attention.h"

namespace linea {

// N positions, of which the first `valid` exist.
struct SetSize {
  int64_t positions, valid;
  bool causal;
  auto operator<=>(const SetSize&) const = default;
};

class KeyRangeSets {
 public:
  // The ranges of query i, disjoint, in any order; those that are empty count as none.
  using Ranges = std::function<void(const SetSize&, int64_t i, std::vector<KeyRange>& ranges)>;
  // keys: the number of rows of k.
  KeyRangeSets(std::function<int64_t(int64_t positions)> keys, Ranges ranges)
      : keys_(std::move(keys)), ranges_(std::move(ranges)) {}

  // Each made once; for any number of threads.
  KeyTilesPtr tiles(const SetSize& size) const;
  // Those of the sequences of a batch; all heads have one.
  KeyTilesOf of(int64_t positions, const AttentionMask& mask) const;

 private:
  std::function<int64_t(int64_t)> keys_;
  Ranges ranges_;
  mutable std::mutex mutex_;
  mutable std::map<SetSize, KeyTilesPtr> known_;
};

// One query and `slots` keys, of which it sees those where sees(slot).
KeyTilesPtr slot_tiles(int64_t slots, const std::function<bool(int64_t slot)>& sees);

}  // namespace linea
