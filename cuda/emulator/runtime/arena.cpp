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

constexpr size_t kMaxReservation = size_t{1} << 40, kMinReservation = size_t{1} << 32;
constexpr size_t kAlignment = 256, kPage = 4096;
constexpr int kFreshByte = 0xFF, kFreedByte = 0xFE;
// The number of later frees before the addresses of an allocation are reused.
constexpr size_t kQuarantine = 1024;

size_t with_red_zone(size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment + kAlignment;
}

// Protects the pages that are entirely inside of the range.
void protect_inner_pages(char* data, size_t bytes, int access) {
  const auto begin = reinterpret_cast<uintptr_t>(data), end = begin + bytes;
  const uintptr_t first = (begin + kPage - 1) / kPage * kPage, last = end / kPage * kPage;
  if (first >= last) return;
  auto* const pages = data + (first - begin);
  if (access == PROT_NONE)
    madvise(pages, last - first, MADV_DONTNEED);  // returns their memory to the system
  if (!settings().guard) mprotect(pages, last - first, access);
}

}  // namespace

Arena& arena() {
  static Arena instance;
  return instance;
}

// Reserves addresses only; the system provides memory on first access.
void Arena::reserve() {
  void* found = MAP_FAILED;
  size_t bytes = kMaxReservation;
  for (; found == MAP_FAILED && bytes >= kMinReservation; bytes /= 2)
    found = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (found == MAP_FAILED) fatal("no address space for device memory");
  base_ = top_ = static_cast<char*>(found);
  end_ = base_ + bytes;
  install_signal_handlers();
}

// Reuses a region of this size that has left quarantine, or takes a new one.
Arena::Region Arena::take(size_t bytes) {
  if (const auto found = reusable_.find(bytes);
      found != reusable_.end() && !found->second.empty()) {
    char* data = found->second.back();
    found->second.pop_back();
    protect_inner_pages(data, bytes, PROT_READ | PROT_WRITE);
    return {data, bytes};
  }
  if (base_ == nullptr) reserve();
  if (bytes > static_cast<size_t>(end_ - top_)) return {nullptr, 0};
  top_ += bytes;
  return {top_ - bytes, bytes};
}

void* Arena::allocate(size_t bytes) {
  const Region region = take(with_red_zone(bytes));
  if (region.data == nullptr) return nullptr;
  live_[region.data] = bytes;
  poison(region.data, region.bytes);
  if (settings().guard && num_accesses_ == 0) protect(PROT_NONE);
  return region.data;
}

void Arena::fill(void* data) {
  const Allocation found = find(data);
  unpoison(found.data, found.bytes);
  const ArenaAccess access;
  std::memset(found.data, kFreshByte, found.bytes);
  if (checker != nullptr) checker->on_allocate(found.data, found.bytes, false);
}

void Arena::release(void* data) {
  const auto found = live_.find(static_cast<char*>(data));
  if (found == live_.end()) fatal("free of {}, which is not a live allocation", data);
  const auto [begin, bytes] = *found;
  live_.erase(found);
  if (checker != nullptr) checker->on_free(begin, bytes);
  unpoison(begin, bytes);
  {
    const ArenaAccess access;
    std::memset(begin, kFreedByte, std::min(bytes, 2 * kPage));
    std::memset(begin + bytes - std::min(bytes, kPage), kFreedByte, std::min(bytes, kPage));
    protect_inner_pages(begin, with_red_zone(bytes), PROT_NONE);  // any access is fatal
  }
  poison(begin, bytes);
  quarantine_.push_back({begin, with_red_zone(bytes)});
  if (quarantine_.size() <= kQuarantine) return;
  reusable_[quarantine_.front().bytes].push_back(quarantine_.front().data);
  quarantine_.pop_front();
}

Arena::Allocation Arena::find(const void* address) const {
  const auto next = live_.upper_bound(const_cast<char*>(static_cast<const char*>(address)));
  if (next == live_.begin()) return {nullptr, 0};
  const auto [data, bytes] = *std::prev(next);
  if (address >= data + std::max<size_t>(bytes, 1)) return {nullptr, 0};
  return {data, bytes};
}

void Arena::check_range(const void* data, size_t bytes, const char* what) const {
  if (bytes == 0) return;
  const Allocation found = find(data);
  if (found.data == nullptr || static_cast<const char*>(data) + bytes > found.data + found.bytes)
    fatal("{}: {} bytes at {} are not inside one live allocation of device memory", what, bytes,
          data);
}

void Arena::allow_access() {
  if (num_accesses_++ > 0 || !settings().guard || top_ == base_) return;
  protect(PROT_READ | PROT_WRITE);
}

void Arena::deny_access() {
  if (--num_accesses_ > 0 || !settings().guard || top_ == base_) return;
  protect(PROT_NONE);
}

void Arena::protect(int access) {
  mprotect(base_, (static_cast<size_t>(top_ - base_) + kPage - 1) / kPage * kPage, access);
}

}  // namespace linea::emulator
