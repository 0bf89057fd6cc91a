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

constexpr size_t kMaxAddresses = size_t{1} << 40, kFewestAddresses = size_t{1} << 32;
constexpr size_t kAlignment = 256, kPage = 4096;
constexpr int kFreshByte = 0xFF, kFreedByte = 0xFE;
constexpr size_t kIdle =
    1024;  // allocations that are freed after one before its addresses are used again

size_t with_zone(size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment + kAlignment;
}

// The pages that hold nothing but this.
void protect_pages_inside(char* data, size_t bytes, int access) {
  const auto begin = reinterpret_cast<uintptr_t>(data), end = begin + bytes;
  const uintptr_t first = (begin + kPage - 1) / kPage * kPage, last = end / kPage * kPage;
  if (first >= last) return;
  auto* const pages = data + (first - begin);
  if (access == PROT_NONE)
    madvise(pages, last - first, MADV_DONTNEED);  // their memory goes back to the system
  if (!settings().guard) mprotect(pages, last - first, access);
}

}  // namespace

Arena& arena() {
  static Arena instance;
  return instance;
}

// Addresses only: memory comes when it is touched.
void Arena::reserve() {
  void* found = MAP_FAILED;
  size_t bytes = kMaxAddresses;
  for (; found == MAP_FAILED && bytes >= kFewestAddresses; bytes /= 2)
    found = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (found == MAP_FAILED) stop("no addresses for device memory");
  base_ = top_ = static_cast<char*>(found);
  end_ = base_ + bytes;
  watch_signals();
}

// Addresses of that size which are long unused, or new ones.
Arena::Region Arena::take(size_t bytes) {
  if (const auto found = unused_.find(bytes); found != unused_.end() && !found->second.empty()) {
    char* data = found->second.back();
    found->second.pop_back();
    protect_pages_inside(data, bytes, PROT_READ | PROT_WRITE);
    return {data, bytes};
  }
  if (base_ == nullptr) reserve();
  if (bytes > static_cast<size_t>(end_ - top_)) return {nullptr, 0};
  top_ += bytes;
  return {top_ - bytes, bytes};
}

void* Arena::allocate(size_t bytes) {
  const Region region = take(with_zone(bytes));
  if (region.data == nullptr) return nullptr;
  live_[region.data] = bytes;
  forbid(region.data, region.bytes);
  if (settings().guard && opened_ == 0) protect(PROT_NONE);
  return region.data;
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
    std::memset(begin, kFreedByte, std::min(bytes, 2 * kPage));
    std::memset(begin + bytes - std::min(bytes, kPage), kFreedByte, std::min(bytes, kPage));
    protect_pages_inside(begin, with_zone(bytes), PROT_NONE);  // whoever touches them dies
  }
  forbid(begin, bytes);
  idle_.push_back({begin, with_zone(bytes)});
  if (idle_.size() <= kIdle) return;
  unused_[idle_.front().bytes].push_back(idle_.front().data);
  idle_.pop_front();
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
    stop("{}: {} bytes from {} on are not inside one live allocation of device memory", what, bytes,
         data);
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
