#include "cuda/emulator/checker/warp_accesses.h"

#include <algorithm>

#include "cuda/emulator/settings.h"
#include "cuda/emulator/symbols.h"

namespace linea::emulator {
namespace {

constexpr size_t kWidest = 16;  // bytes of a lane in one instruction
constexpr uintptr_t kSectorBytes = 32, kBanks = 32, kWordBytes = 4;

// A range of addresses that a lane accesses.
struct Range {
  uintptr_t begin, end;
};

// How many units of `bytes` aligned bytes the ranges touch. The ranges are sorted.
uint64_t num_touched(const std::vector<Range>& ranges, uintptr_t bytes) {
  uint64_t count = 0;
  uintptr_t next = 0;  // the first unit that does not count yet
  for (const Range& range : ranges) {
    const uintptr_t first = std::max(range.begin / bytes, next),
                    end = (range.end + bytes - 1) / bytes;
    if (end <= first) continue;
    count += end - first;
    next = end;
  }
  return count;
}

// The most words of one bank.
uint64_t num_passes(const std::vector<Range>& ranges) {
  std::vector<uintptr_t> words;
  for (const Range& range : ranges)
    for (uintptr_t word = range.begin / kWordBytes; word * kWordBytes < range.end; ++word)
      words.push_back(word);
  std::sort(words.begin(), words.end());
  words.erase(std::unique(words.begin(), words.end()), words.end());
  std::array<uint64_t, kBanks> of_bank{};
  for (const uintptr_t word : words) ++of_bank[word % kBanks];
  return *std::max_element(of_bank.begin(), of_bank.end());
}

}  // namespace

void WarpAccesses::begin(const Launch& launch) {
  kernel_ = settings().counts ? &kernel_counts()[launch.kernel] : nullptr;
  if (enabled() && kernel_->name.empty()) kernel_->name = symbol_name(launch.kernel);
}

void WarpAccesses::add(int warp, int lane, uintptr_t address, size_t bytes, bool shared, bool write,
                       uint32_t code) {
  const size_t piece = std::min(bytes & -bytes, kWidest);
  for (const uintptr_t end = address + bytes; address < end; address += piece)
    pending_[static_cast<size_t>(warp)].push_back(
        {address, code, static_cast<uint8_t>(lane), static_cast<uint8_t>(piece), shared, write});
}

void WarpAccesses::count(int warp, unsigned lanes) {
  if (!enabled()) return;
  std::vector<LaneAccess>& pending = pending_[static_cast<size_t>(warp)];
  const auto end = std::stable_partition(pending.begin(), pending.end(), [=](const LaneAccess& a) {
    return (lanes >> a.lane & 1) != 0;
  });
  std::stable_sort(pending.begin(), end, [](const LaneAccess& a, const LaneAccess& b) {
    return a.location() != b.location() ? a.location() < b.location() : a.lane < b.lane;
  });
  for (auto first = pending.begin(); first != end;) {
    const auto last = std::find_if(
        first, end, [=](const LaneAccess& a) { return a.location() != first->location(); });
    count_location({first, last});
    first = last;
  }
  pending.erase(pending.begin(), end);
}

// All accesses of one location, sorted by lane: the n-th of each lane is a group.
void WarpAccesses::count_location(std::span<LaneAccess> accesses) {
  std::vector<std::vector<LaneAccess>> groups;
  size_t n = 0;
  for (size_t i = 0; i < accesses.size(); ++i) {
    n = i > 0 && accesses[i].lane == accesses[i - 1].lane ? n + 1 : 0;
    if (n == groups.size()) groups.emplace_back();
    groups[n].push_back(accesses[i]);
  }
  for (const std::vector<LaneAccess>& group : groups) count_group(group);
}

void WarpAccesses::count_group(const std::vector<LaneAccess>& group) {
  const LaneAccess& first = group.front();
  AccessCount& count = first.shared
                           ? (first.write ? kernel_->shared_stores : kernel_->shared_loads)
                           : (first.write ? kernel_->global_stores : kernel_->global_loads);
  ++count.accesses;
  count.lanes += group.size();
  size_t widest = kWordBytes;
  for (const LaneAccess& access : group) {
    count.bytes += access.bytes;
    widest = std::max<size_t>(widest, access.bytes);
  }
  const size_t at_once = first.shared ? 32 * kWordBytes / widest : 32;  // lanes
  for (size_t lane = 0; lane < 32; lane += at_once) {
    std::vector<Range> ranges;
    for (const LaneAccess& access : group)
      if (access.lane / at_once == lane / at_once)
        ranges.push_back({access.address, access.address + access.bytes});
    if (ranges.empty()) continue;
    if (first.shared) {
      count.units += num_passes(ranges);
      ++count.min_units;
      continue;
    }
    std::sort(ranges.begin(), ranges.end(),
              [](const Range& a, const Range& b) { return a.begin < b.begin; });
    count.units += num_touched(ranges, kSectorBytes);
    count.min_units += (num_touched(ranges, 1) + kSectorBytes - 1) / kSectorBytes;
  }
}

}  // namespace linea::emulator
