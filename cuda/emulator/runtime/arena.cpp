#include "cuda/emulator/runtime/arena.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <iterator>

#include "cuda/emulator/checker.h"
#include "cuda/emulator/report.h"
#include "cuda/emulator/sanitizer.h"
#include "cuda/emulator/settings.h"

namespace linea::emulator {
namespace {

constexpr size_t kMostAddresses = size_t{1} << 40, kFewestAddresses = size_t{1} << 32;
constexpr size_t kAlignment = 256, kPage = 4096;
constexpr int kFreshByte = 0xFF, kFreedByte = 0xFE;

}  // namespace

Arena& arena() {
  static Arena instance;
  return instance;
}

// Addresses only: memory comes when it is touched.
void Arena::reserve() {
  void* found = MAP_FAILED;
  size_t bytes = kMostAddresses;
  for (; found == MAP_FAILED && bytes >= kFewestAddresses; bytes /= 2)
    found = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (found == MAP_FAILED) stop("no addresses for device memory");
  base_ = top_ = static_cast<char*>(found);
  end_ = base_ + bytes;
  watch_signals();
}

void* Arena::allocate(size_t bytes) {
  if (base_ == nullptr) reserve();
  // At least one alignment of red zone behind each allocation.
  const size_t taken = (bytes + kAlignment - 1) / kAlignment * kAlignment + kAlignment;
  if (taken > static_cast<size_t>(end_ - top_)) return nullptr;
  char* data = top_;
  top_ += taken;
  live_[data] = bytes;
  forbid(data, taken);
  if (settings().guard && opened_ == 0) protect(PROT_NONE);
  return data;
}

void Arena::fill(void* data) {
  const Allocation found = find(data);
  permit(found.data, found.bytes);
  const OpenArena open;
  std::memset(found.data, kFreshByte, found.bytes);
  if (checker != nullptr) checker->allocated(found.data, found.bytes, false);
}

void Arena::release(void* data) {
  const auto found = live_.find(static_cast<char*>(data));
  if (found == live_.end()) stop("{} is freed, which is no allocation, or no longer", data);
  const auto [begin, bytes] = *found;
  live_.erase(found);
  if (checker != nullptr) checker->released(begin, bytes);
  permit(begin, bytes);
  {
    const OpenArena open;
    std::memset(begin, kFreedByte, bytes);
    // Whole pages go back to the system, and whoever touches them dies.
    char* first = begin + (-reinterpret_cast<uintptr_t>(begin) & (kPage - 1));
    char* last = begin + bytes - (reinterpret_cast<uintptr_t>(begin + bytes) & (kPage - 1));
    if (first < last) {
      madvise(first, static_cast<size_t>(last - first), MADV_DONTNEED);
      if (!settings().guard) mprotect(first, static_cast<size_t>(last - first), PROT_NONE);
    }
  }
  forbid(begin, bytes);
}

Arena::Allocation Arena::find(const void* address) const {
  const auto next = live_.upper_bound(const_cast<char*>(static_cast<const char*>(address)));
  if (next == live_.begin()) return {nullptr, 0};
  const auto [data, bytes] = *std::prev(next);
  if (address >= data + std::max<size_t>(bytes, 1)) return {nullptr, 0};
  return {data, bytes};
}

void Arena::need(const void* data, size_t bytes, const char* what) const {
  if (bytes == 0) return;
  const Allocation found = find(data);
  if (found.data == nullptr || static_cast<const char*>(data) + bytes > found.data + found.bytes)
    stop("{}: {} bytes from {} on are not inside one live allocation of device memory", what, bytes, data);
}

void Arena::open() {
  if (opened_++ > 0 || !settings().guard || top_ == base_) return;
  protect(PROT_READ | PROT_WRITE);
}

void Arena::close() {
  if (--opened_ > 0 || !settings().guard || top_ == base_) return;
  protect(PROT_NONE);
}

void Arena::protect(int access) {
  mprotect(base_, (static_cast<size_t>(top_ - base_) + kPage - 1) / kPage * kPage, access);
}

}  // namespace linea::emulator
