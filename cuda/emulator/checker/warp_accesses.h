// Groups the accesses of a warp's lanes and counts them (counts.h).
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "cuda/emulator/block/run_queue.h"
#include "cuda/emulator/counts.h"
#include "cuda/emulator/launch.h"

namespace linea::emulator {

class WarpAccesses {
 public:
  // Counts the launch that follows if the settings say so.
  void begin(const Launch& launch);
  bool enabled() const { return kernel_ != nullptr; }
  void add(int warp, int lane, uintptr_t address, size_t bytes, bool shared, bool write,
           uint32_t code);
  // Groups and counts what these lanes accessed since the last call.
  void count(int warp, unsigned lanes);

 private:
  struct LaneAccess {
    uintptr_t address;
    uint32_t code;
    uint8_t lane, bytes;
    bool shared, write;

    uint64_t location() const {
      return uint64_t{code} << 2 | unsigned{shared} << 1 | unsigned{write};
    }
  };
  void count_location(std::span<LaneAccess> accesses);
  void count_group(const std::vector<LaneAccess>& group);

  KernelCounts* kernel_ = nullptr;                                 // null: not counted
  std::array<std::vector<LaneAccess>, kMaxThreads / 32> pending_;  // of each warp, in program order
};

}  // namespace linea::emulator
