// Pinned memory on the way to the device: what is written through it leaves the host's hands at
// once, and the host does not wait for the device, but for a write that is larger than all slots.
#pragma once

#include <array>
#include <cstddef>

#include "cuda/compat.h"

namespace linea::cuda {

class Staging {
 public:
  // Slots of pinned memory, and an event each. Never given back: it lasts as long as the process.
  Staging();

  // Has `bytes`, as they are on the host now, copied to the device when `stream` comes to it, a
  // slot's worth at a time. Waits only for copies that began kSlots of them ago.
  void write(void* to, const void* host, size_t bytes, cudaStream_t stream);

  static constexpr size_t kSlots = 8, kSlotBytes = size_t{1} << 20;

 private:
  struct Slot {
    void* memory = nullptr;
    cudaEvent_t copied = nullptr;
  };
  std::array<Slot, kSlots> slots_;
  size_t next_ = 0;
};

}  // namespace linea::cuda
