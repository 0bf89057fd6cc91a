// Pinned staging memory for writes to the device. A write copies the host's data at once and does
// not wait for the device, unless it is larger than all slots.
#pragma once

#include <array>
#include <cstddef>

#include "cuda/compat.h"

namespace linea::cuda {

class Staging {
 public:
  // Allocates the slots of pinned memory and their events, for the lifetime of the process.
  Staging();

  // Copies `bytes` bytes from the host to the device in the order of `stream`, one slot at a time.
  // Waits only for copies started kSlots slots earlier.
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
