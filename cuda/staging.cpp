#include "cuda/staging.h"

#include <cstring>

namespace linea::cuda {

Staging::Staging() {
  void* memory = nullptr;
  check_cuda(cudaMallocHost(&memory, kSlots * kSlotBytes), "pinned memory of the host");
  for (size_t i = 0; i < kSlots; ++i) {
    slots_[i].memory = static_cast<char*>(memory) + i * kSlotBytes;
    check_cuda(cudaEventCreateWithFlags(&slots_[i].copied, cudaEventDisableTiming), "an event of a copy");
  }
}

bool Staging::write(void* to, const void* host, size_t bytes, cudaStream_t stream) {
  if (bytes > kSlotBytes) return false;
  const Slot& slot = slots_[next_];
  next_ = (next_ + 1) % kSlots;
  check_cuda(cudaEventSynchronize(slot.copied), "waiting for an earlier copy");  // at once before the slot's first
  std::memcpy(slot.memory, host, bytes);
  check_cuda(cudaMemcpyAsync(to, slot.memory, bytes, cudaMemcpyHostToDevice, stream), "writing to the device");
  check_cuda(cudaEventRecord(slot.copied, stream), "an event of a copy");
  return true;
}

}  // namespace linea::cuda
