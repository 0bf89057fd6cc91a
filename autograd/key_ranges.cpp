#include "autograd/key_ranges.h"

#include <algorithm>

namespace linea {
namespace {

constexpr size_t kMaxKnown = 256;

}  // namespace

KeyTilesPtr KeyRangeSets::tiles(const SetSize& size) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (const auto at = known_.find(size); at != known_.end()) return at->second;
  const int64_t queries = size.positions, keys = keys_(queries);
  std::vector<KeyTiles::Lists> parts(1);
  KeyTiles::Lists& lists = parts[0];
  std::vector<KeyRange> ranges;
  for (int64_t row = 0; row < queries; row += kKeyTile) {
    const int64_t height = std::min(kKeyTile, queries - row);
    std::map<int64_t, KeyTiles::Mask> masks;  // of each block of keys
    for (int64_t i = 0; i < height; ++i) {
      ranges.clear();
      ranges_(size, row + i, ranges);
      for (const auto& [first, end] : ranges)
        for (int64_t block = first / kKeyTile; block * kKeyTile < end && first < end; ++block)
          masks[block][static_cast<size_t>(i)] |=
              key_bits(first - block * kKeyTile, end - block * kKeyTile);
    }
    for (const auto& [block, mask] : masks) {
      const uint64_t all = key_bits(0, keys - block * kKeyTile);
      const bool whole = std::all_of(mask.begin(), mask.begin() + height,
                                     [all](uint64_t bits) { return bits == all; });
      lists.add_tile(block, mask, whole);
    }
    lists.end_block();
  }
  if (known_.size() >= kMaxKnown) known_.clear();
  return known_[size] = std::make_shared<const KeyTiles>(queries, keys, std::move(parts));
}

KeyTilesOf KeyRangeSets::of(int64_t positions, const AttentionMask& mask) const {
  const auto valid =
      mask.valid.defined() ? mask.valid.to_vector<int32_t>() : std::vector<int32_t>();
  return [=, this, causal = mask.causal](int64_t sequence, int64_t) {
    const int64_t own = valid.empty() ? positions : valid[static_cast<size_t>(sequence)];
    return tiles({positions, own, causal});
  };
}

KeyTilesPtr slot_tiles(int64_t slots, const std::function<bool(int64_t)>& sees) {
  KeyTiles::Part part;
  part.sees = [&](int64_t, const int32_t* keys, int64_t count) {
    uint64_t bits = 0;
    for (int64_t n = 0; n < count; ++n)
      if (sees(keys[n])) bits |= uint64_t{1} << n;
    return bits;
  };
  return std::make_shared<const KeyTiles>(1, slots, std::vector{part});
}

}  // namespace linea
