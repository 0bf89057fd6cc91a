// What the lanes of a warp do together: barriers, votes, shuffles, sums.
#include <algorithm>
#include <bit>

#include "cuda/emulator/block/block.h"
#include "cuda/emulator/block/lanes.h"
#include "cuda/emulator/checker.h"
#include "cuda/emulator/report.h"

namespace linea::emulator {

void Block::meet_in_warp(unsigned mask, WarpOperation operation, void* argument, const char* what,
                         Place place) {
  Thread& thread = current();
  if ((mask >> lane() & 1) == 0)
    stop("{} at {}:{} with mask {:08x}: the calling lane {} is not in the mask", what,
         place.file_name(), place.line(), mask, lane());
  thread.state = ThreadState::in_warp;
  thread.what = what;
  thread.place = place;
  thread.mask = mask;
  thread.operation = operation;
  thread.argument = argument;
  const int warp = current_ / 32;
  arrived_[static_cast<size_t>(warp)] |= 1u << lane();
  complete_warp(warp, thread);
  run_others();
}

// Runs the operation if all lanes of the mask that have not ended are there.
void Block::complete_warp(int warp, const Thread& arrived) {
  const unsigned lanes = arrived.mask & living_[static_cast<size_t>(warp)];
  if ((arrived_[static_cast<size_t>(warp)] & lanes) != lanes) return;
  void* arguments[32] = {};
  for (int i = 0; i < 32; ++i) {
    if ((lanes >> i & 1) == 0) continue;
    const Thread& other = threads_[static_cast<size_t>(warp * 32 + i)];
    if (other.mask != arrived.mask || other.operation != arrived.operation)
      stop("divergent warp: {} with mask {:08x} at {}:{} meets {} with mask {:08x} at {}:{}",
           arrived.what, arrived.mask, arrived.place.file_name(), arrived.place.line(), other.what,
           other.mask, other.place.file_name(), other.place.line());
    arguments[i] = other.argument;
  }
  arrived_[static_cast<size_t>(warp)] &= ~lanes;
  // First, so that what the operation touches for other lanes is no race with what they did before.
  if (checker != nullptr) checker->warp_met(warp * 32, lanes);
  if (arrived.operation != nullptr) arrived.operation(arguments, lanes);
  for (int i = 0; i < 32; ++i) {  // the one that is to run first comes last
    const int lane = queue_.reversed() ? i : 31 - i;
    if ((lanes >> lane & 1) == 0) continue;
    threads_[static_cast<size_t>(warp * 32 + lane)].state = ThreadState::ready;
    queue_.push_first(warp * 32 + lane);
  }
}

void warp_barrier(unsigned mask, const char* what, Place place) {
  const OutsideKernel outside;
  block.meet_in_warp(mask, nullptr, nullptr, what, place);
}

// ---- votes ----

namespace {

struct Vote {
  bool cast;
  unsigned result;
};

void count_votes(void* const* arguments, unsigned lanes) {
  unsigned votes = 0;
  for (const int lane : LanesOf(lanes)) votes |= unsigned{of<Vote>(arguments[lane]).cast} << lane;
  for (const int lane : LanesOf(lanes)) of<Vote>(arguments[lane]).result = votes;
}

}  // namespace

unsigned ballot(unsigned mask, bool vote, const char* what, Place place) {
  const OutsideKernel outside;
  Vote mine{vote, 0};
  block.meet_in_warp(mask, count_votes, &mine, what, place);
  return mine.result;
}

// ---- shuffles ----

namespace {

struct Exchange {
  uint64_t bits, result;
  int from;
};

// A lane that reads one that is not there gets what a GPU leaves undefined: here NaN, or -1.
void exchange(void* const* arguments, unsigned lanes) {
  for (const int lane : LanesOf(lanes)) {
    Exchange& mine = of<Exchange>(arguments[lane]);
    mine.result =
        (lanes >> mine.from & 1) != 0 ? of<Exchange>(arguments[mine.from]).bits : ~uint64_t{0};
  }
}

int source_lane(ShuffleKind kind, int lane, int argument, int width) {
  const int first = lane & ~(width - 1);
  const int own = lane - first;
  switch (kind) {
    case ShuffleKind::lane:
      return first + (argument & (width - 1));
    case ShuffleKind::up:
      return own < argument ? lane : lane - argument;
    case ShuffleKind::down:
      return own + argument >= width ? lane : lane + argument;
    case ShuffleKind::exclusive_or:
      return (lane ^ argument) >= first + width ? lane : lane ^ argument;
  }
  return lane;
}

const char* name_of(ShuffleKind kind) {
  switch (kind) {
    case ShuffleKind::lane:
      return "__shfl_sync";
    case ShuffleKind::up:
      return "__shfl_up_sync";
    case ShuffleKind::down:
      return "__shfl_down_sync";
    case ShuffleKind::exclusive_or:
      return "__shfl_xor_sync";
  }
  return "?";
}

}  // namespace

uint64_t shuffle(ShuffleKind kind, unsigned mask, uint64_t bits, int lane, int width, Place place) {
  const OutsideKernel outside;
  if (width < 1 || width > 32 || !std::has_single_bit(static_cast<unsigned>(width)))
    stop("{} at {}:{}: the width {} is no power of two up to 32", name_of(kind), place.file_name(),
         place.line(), width);
  Exchange mine{bits, 0, source_lane(kind, block.lane(), lane, width) & 31};
  block.meet_in_warp(mask, exchange, &mine, name_of(kind), place);
  return mine.result;
}

// ---- sums and the like ----

namespace {

struct Reduced {
  int64_t value;
  WarpReduction kind;
};

int64_t combine(WarpReduction kind, int64_t a, int64_t b) {
  switch (kind) {
    case WarpReduction::sum:
      return a + b;
    case WarpReduction::least:
      return std::min(a, b);
    case WarpReduction::largest:
      return std::max(a, b);
    case WarpReduction::bit_and:
      return a & b;
    case WarpReduction::bit_or:
      return a | b;
    case WarpReduction::bit_xor:
      return a ^ b;
  }
  return a;
}

void reduce_lanes(void* const* arguments, unsigned lanes) {
  const int first = std::countr_zero(lanes);
  Reduced all = of<Reduced>(arguments[first]);
  for (const int lane : LanesOf(lanes & ~(1u << first)))
    all.value = combine(all.kind, all.value, of<Reduced>(arguments[lane]).value);
  for (const int lane : LanesOf(lanes)) of<Reduced>(arguments[lane]).value = all.value;
}

}  // namespace

int64_t reduce(WarpReduction kind, unsigned mask, int64_t value, Place place) {
  const OutsideKernel outside;
  Reduced mine{value, kind};
  block.meet_in_warp(mask, reduce_lanes, &mine, "__reduce_sync", place);
  return mine.value;
}

}  // namespace linea::emulator

unsigned __activemask() { return linea::emulator::block.living_lanes(); }
