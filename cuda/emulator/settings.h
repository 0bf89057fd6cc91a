// The emulator's settings. Read from the environment; tests change them between launches.
//
//   LINEA_EMULATOR_ORDER=forward|reverse|priority   the scheduling order of a block's threads
//   LINEA_EMULATOR_STREAMS=late|eager|random        when operations of a stream run
//   LINEA_EMULATOR_SEED=N                           of the random numbers for both
//   LINEA_EMULATOR_MEMORY=BYTES                     size of device memory
//   LINEA_EMULATOR_DEVICES=N                        0: a machine without a GPU
//   LINEA_EMULATOR_CAPABILITY=90                    compute capability, ten times
//   LINEA_EMULATOR_GUARD=0|1                        1: direct host access to device memory is fatal
//   LINEA_EMULATOR_COUNTS=FILE                      at exit, the counts of counts.h; needs the checker
#pragma once

#include <cstddef>
#include <cstdint>

namespace linea::emulator {

// priority: warps and lanes have random priorities, and the runnable thread of highest priority
// always runs, so that some threads run as far ahead of others as the barriers permit. That exposes
// missing barriers both before and after a write.
enum class ThreadOrder : uint8_t { forward, reverse, priority };
enum class StreamOrder : uint8_t { late, eager, random };

struct Settings {
  ThreadOrder thread_order = ThreadOrder::forward;
  StreamOrder stream_order = StreamOrder::late;
  uint32_t seed = 1;
  size_t memory = size_t{8} << 30;
  int devices = 1, capability = 90;
  bool guard = false;
  bool counts = false;  // whether accesses of the following launches are counted
};

Settings& settings();

// A small generator (splitmix64), deterministic for its key.
class Random {
 public:
  explicit Random(uint64_t key) : state_(key) {}
  uint32_t next();
  uint32_t below(uint32_t limit) { return next() % limit; }

 private:
  uint64_t state_;
};

}  // namespace linea::emulator
