#include "cuda/staging.h"

#include <algorithm>
#include <cstring>

namespace linea::cuda {

Staging::Staging() {
  void* memory = nullptr;
  check_cuda(cudaMallocHost(&memory, kSlots * kSlotBytes), "allocating pinned memory");
  for (size_t i = 0; i < kSlots; ++i) {
    slots_[i].memory = static_cast<char*>(memory) + i * kSlotBytes;
    check_cuda(cudaEventCreateWithFlags(&slots_[i].copied, cudaEventDisableTiming),
               "creating an event");
  }
}

void Staging::write(void* to, const void* host, size_t bytes, cudaStream_t stream) {
  for (size_t first = 0; first < bytes; first += kSlotBytes) {
    const size_t part = std::min(kSlotBytes, bytes - first);
    const Slot& slot = slots_[next_];
    next_ = (next_ + 1) % kSlots;
    check_cuda(cudaEventSynchronize(slot.copied),
               "waiting for an earlier copy");  // returns at once for an unused slot
    std::memcpy(slot.memory, static_cast<const char*>(host) + first, part);
    check_cuda(cudaMemcpyAsync(static_cast<char*>(to) + first, slot.memory, part,
                               cudaMemcpyHostToDevice, stream),
               "writing to the device");
    check_cuda(cudaEventRecord(slot.copied, stream), "recording an event");
  }
}

}  // namespace linea::cuda
