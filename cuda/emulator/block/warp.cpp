// Warp-wide operations: barriers, votes, shuffles, reductions.
#include <algorithm>
#include <bit>

#include "cuda/emulator/block/block.h"
#include "cuda/emulator/block/lanes.h"
#include "cuda/emulator/checker.h"
#include "cuda/emulator/report.h"

namespace linea::emulator {

void Block::run_warp_operation(unsigned mask, WarpOperation operation, void* argument,
                               const char* function, std::source_location location) {
  Thread& thread = current();
  if ((mask >> lane() & 1) == 0)
    fatal("{} at {} with mask {:08x} does not include the calling lane {}", function,
          to_string(location), mask, lane());
  thread.state = ThreadState::in_warp;
  thread.function = function;
  thread.location = location;
  thread.mask = mask;
  thread.operation = operation;
  thread.argument = argument;
  const int warp = current_ / 32;
  arrived_[static_cast<size_t>(warp)] |= 1u << lane();
  complete_warp_operation(warp, thread);
  yield();
}

// Runs the operation if all lanes of the mask that have not exited have arrived.
void Block::complete_warp_operation(int warp, const Thread& arrived) {
  const unsigned lanes = arrived.mask & live_lanes_[static_cast<size_t>(warp)];
  if ((arrived_[static_cast<size_t>(warp)] & lanes) != lanes) return;
  void* arguments[32] = {};
  for (int i = 0; i < 32; ++i) {
    if ((lanes >> i & 1) == 0) continue;
    const Thread& other = threads_[static_cast<size_t>(warp * 32 + i)];
    if (other.mask != arrived.mask || other.operation != arrived.operation)
      fatal("divergent warp: {} with mask {:08x} at {}, but {} with mask {:08x} at {}",
            arrived.function, arrived.mask, to_string(arrived.location), other.function, other.mask,
            to_string(other.location));
    arguments[i] = other.argument;
  }
  arrived_[static_cast<size_t>(warp)] &= ~lanes;
  // Before the operation, whose accesses on behalf of other lanes must be ordered after theirs.
  if (checker != nullptr) checker->on_warp_sync(warp * 32, lanes);
  if (arrived.operation != nullptr) arrived.operation(arguments, lanes);
  for (int i = 0; i < 32; ++i) {  // the last one pushed runs first
    const int lane = queue_.reversed() ? i : 31 - i;
    if ((lanes >> lane & 1) == 0) continue;
    threads_[static_cast<size_t>(warp * 32 + lane)].state = ThreadState::ready;
    queue_.push_front(warp * 32 + lane);
  }
}

void warp_barrier(unsigned mask, const char* function, std::source_location location) {
  const EmulatorScope scope;
  block.run_warp_operation(mask, nullptr, nullptr, function, location);
}

// ---- votes ----

namespace {

struct Vote {
  bool cast;
  unsigned result;
};

void count_votes(void* const* arguments, unsigned lanes) {
  unsigned votes = 0;
  for (const int lane : Lanes(lanes)) votes |= unsigned{as<Vote>(arguments[lane]).cast} << lane;
  for (const int lane : Lanes(lanes)) as<Vote>(arguments[lane]).result = votes;
}

}  // namespace

unsigned ballot(unsigned mask, bool vote, const char* function, std::source_location location) {
  const EmulatorScope scope;
  Vote argument{vote, 0};
  block.run_warp_operation(mask, count_votes, &argument, function, location);
  return argument.result;
}

// ---- shuffles ----

namespace {

struct ShuffleArgument {
  uint64_t bits, result;
  int source;
};

// Reading an absent lane is undefined on a GPU; here it gives NaN or -1.
void exchange(void* const* arguments, unsigned lanes) {
  for (const int lane : Lanes(lanes)) {
    ShuffleArgument& argument = as<ShuffleArgument>(arguments[lane]);
    argument.result = (lanes >> argument.source & 1) != 0
                          ? as<ShuffleArgument>(arguments[argument.source]).bits
                          : ~uint64_t{0};
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

const char* to_string(ShuffleKind kind) {
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

uint64_t shuffle(ShuffleKind kind, unsigned mask, uint64_t bits, int lane, int width,
                 std::source_location location) {
  const EmulatorScope scope;
  if (width < 1 || width > 32 || !std::has_single_bit(static_cast<unsigned>(width)))
    fatal("{} at {}: the width {} is not a power of two up to 32", to_string(kind),
          to_string(location), width);
  ShuffleArgument argument{bits, 0, source_lane(kind, block.lane(), lane, width) & 31};
  block.run_warp_operation(mask, exchange, &argument, to_string(kind), location);
  return argument.result;
}

// ---- reductions ----

namespace {

struct ReductionArgument {
  int64_t value;
  WarpReduction kind;
};

int64_t combine(WarpReduction kind, int64_t a, int64_t b) {
  switch (kind) {
    case WarpReduction::sum:
      return a + b;
    case WarpReduction::min:
      return std::min(a, b);
    case WarpReduction::max:
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
  ReductionArgument total = as<ReductionArgument>(arguments[first]);
  for (const int lane : Lanes(lanes & ~(1u << first)))
    total.value = combine(total.kind, total.value, as<ReductionArgument>(arguments[lane]).value);
  for (const int lane : Lanes(lanes)) as<ReductionArgument>(arguments[lane]).value = total.value;
}

}  // namespace

int64_t reduce(WarpReduction kind, unsigned mask, int64_t value, std::source_location location) {
  const EmulatorScope scope;
  ReductionArgument argument{value, kind};
  block.run_warp_operation(mask, reduce_lanes, &argument, "__reduce_sync", location);
  return argument.value;
}

}  // namespace linea::emulator

unsigned __activemask() { return linea::emulator::block.live_lanes(); }
