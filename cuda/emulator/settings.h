// How the emulator runs what it is given. From the environment at first; tests change them between
// launches.
//
//   LINEA_EMULATOR_ORDER=forward|reverse|priority   which thread of a block goes on
//   LINEA_EMULATOR_STREAMS=late|eager|random        when what lies on a stream is run
//   LINEA_EMULATOR_SEED=N                           of what is random in both
//   LINEA_EMULATOR_MEMORY=BYTES                     of the device
//   LINEA_EMULATOR_DEVICES=0|1                      0: a machine without a GPU
//   LINEA_EMULATOR_GUARD=0|1                        1: the host dies when it touches device memory
//   itself
#pragma once

#include <cstddef>
#include <cstdint>

namespace linea::emulator {

// priority: warps and lanes have random priorities, and always the first that can run does, so that
// some run as far ahead of others as barriers permit. That shows a missing barrier before a write
// as well as one after.
enum class ThreadOrder : uint8_t { forward, reverse, priority };
enum class StreamOrder : uint8_t { late, eager, random };

struct Settings {
  ThreadOrder threads = ThreadOrder::forward;
  StreamOrder streams = StreamOrder::late;
  uint32_t seed = 1;
  size_t memory = size_t{8} << 30;
  int devices = 1;
  bool guard = false;
};

Settings& settings();

// A few random numbers, the same for the same key.
class Random {
 public:
  explicit Random(uint64_t key) : state_(key) {}
  uint32_t next();
  uint32_t below(uint32_t limit) { return next() % limit; }

 private:
  uint64_t state_;
};

}  // namespace linea::emulator
