#include "cuda/emulator/device/async_copy.h"

#include <cstdint>
#include <cstring>

#include "cuda/emulator/block/block.h"
#include "cuda/emulator/checker.h"
#include "cuda/emulator/report.h"

namespace linea::emulator {
namespace {

constexpr int kUndefinedByte = 0xFF;

// Recorded as a second write, which counts for no lane: a read by another thread without a barrier
// after the wait races with it.
void do_copy(const AsyncCopy& copy, const void* code) {
  record_access(copy.to, copy.bytes, Access::write, code, kNoLane);
  char* to = static_cast<char*>(copy.to);
  std::memcpy(to, copy.from, copy.bytes - copy.zeros);
  std::memset(to + copy.bytes - copy.zeros, 0, copy.zeros);
}

}  // namespace

void copy_async(void* to, const void* from, size_t bytes, size_t zeros,
                std::source_location location) {
  const EmulatorScope scope;
  const void* code = __builtin_return_address(0);
  const auto addresses = reinterpret_cast<uintptr_t>(to) | reinterpret_cast<uintptr_t>(from);
  if ((bytes != 4 && bytes != 8 && bytes != 16) || addresses % bytes != 0 || zeros > bytes)
    fatal(
        "cp.async at {}: {} bytes from {} to {}; sizes are 4, 8 or 16 bytes, and both addresses "
        "must be aligned to the size",
        to_string(location), bytes, from, to);
  record_access(from, bytes - zeros, Access::read, code);
  record_access(to, bytes, Access::write, code);
  std::memset(to, kUndefinedByte, bytes);  // the copy happens as late as a GPU may do it
  Thread& thread = block.current();
  thread.copies.push_back({to, from, bytes, zeros, thread.copy_group});
}

void commit_copies() { ++block.current().copy_group; }

void wait_for_copies(size_t pending) {
  const EmulatorScope scope;
  const void* code = __builtin_return_address(0);
  Thread& thread = block.current();
  auto copy = thread.copies.begin();
  for (; copy != thread.copies.end() && copy->group + pending < thread.copy_group; ++copy)
    do_copy(*copy, code);
  thread.copies.erase(thread.copies.begin(), copy);
}

}  // namespace linea::emulator
