#include "cuda/emulator/block/shared_memory.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "cuda/emulator/block/block.h"
#include "cuda/emulator/checker.h"
#include "cuda/emulator/report.h"
#include "cuda/emulator/sanitizer.h"

namespace linea::emulator {
namespace {

constexpr size_t kAlignment = 128, kRedZone = 128, kMaxArrays = 64;
constexpr unsigned char kRedZoneByte = 0xA5, kFreshByte = 0xFF;

size_t round_up(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

}  // namespace

void SharedMemory::begin(size_t bytes) {
  bytes_ = bytes;
  const size_t needed = bytes + (kMaxArrays + 2) * (kRedZone + kAlignment);
  if (memory_.size() < needed) {
    unpoison(memory_.data(), memory_.size());
    memory_.assign(needed, kRedZoneByte);
    poison(memory_.data(), memory_.size());
  }
  const auto address = reinterpret_cast<uintptr_t>(memory_.data());
  next_ = memory_.data() + (round_up(address) - address);
}

unsigned char* SharedMemory::red_zone_end(const Array& array) const {
  return array.data + round_up(array.bytes) + kRedZone;
}

void* SharedMemory::take(size_t number, size_t bytes, std::source_location location) {
  if (number < arrays_.size()) {
    if (arrays_[number].bytes != bytes)
      fatal("dynamic shared array {} at {}: another thread took {} bytes, this one takes {}",
            number, to_string(location), arrays_[number].bytes, bytes);
    return arrays_[number].data;
  }
  if (number == kMaxArrays) fatal("more than {} dynamic shared arrays", kMaxArrays);
  taken_ = round_up(taken_) + bytes;
  if (taken_ > bytes_)
    fatal("dynamic shared memory at {}: the block takes {} bytes, its launch provides {}",
          to_string(location), taken_, bytes_);
  const Array array{(arrays_.empty() ? next_ : red_zone_end(arrays_.back()) - kRedZone) + kRedZone,
                    bytes, location};
  arrays_.push_back(array);
  unpoison(array.data, bytes);
  std::memset(array.data, kFreshByte, bytes);
  if (checker != nullptr) checker->on_allocate(array.data, bytes, false);
  return array.data;
}

void SharedMemory::check_red_zone(const unsigned char* begin, const unsigned char* end,
                                  const Array& array, const char* side) const {
  const auto intact = [](unsigned char byte) { return byte == kRedZoneByte; };
  const unsigned char* changed = std::find_if_not(begin, end, intact);
  if (changed != end)
    fatal("block ({},{},{}) wrote {} the dynamic shared array of {} bytes taken at {}, at byte {}",
          blockIdx.x, blockIdx.y, blockIdx.z, side, array.bytes, to_string(array.location),
          changed - array.data);
}

// The address sanitizer catches such writes itself, and would report the check.
void SharedMemory::end_block() {
  for (const Array& array : arrays_) {
    if constexpr (!kAddressSanitizer) {
      check_red_zone(array.data - kRedZone, array.data, array, "before");
      check_red_zone(array.data + array.bytes, red_zone_end(array), array, "past");
      std::memset(array.data, kRedZoneByte, array.bytes);
    }
    poison(array.data, array.bytes);
    if (checker != nullptr) checker->on_free(array.data, array.bytes);
  }
  arrays_.clear();
  taken_ = 0;
}

void* take_shared(size_t bytes, std::source_location location) {
  const EmulatorScope scope;
  return block.shared().take(block.current().num_shared_arrays++, bytes, location);
}

}  // namespace linea::emulator
