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

constexpr size_t kAlignment = 128, kZone = 128, kMaxPieces = 64;
constexpr unsigned char kZoneByte = 0xA5, kFreshByte = 0xFF;

size_t round_up(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

}  // namespace

void SharedMemory::begin(size_t bytes) {
  bytes_ = bytes;
  const size_t needed = bytes + (kMaxPieces + 2) * (kZone + kAlignment);
  if (memory_.size() < needed) {
    permit(memory_.data(), memory_.size());
    memory_.assign(needed, kZoneByte);
    forbid(memory_.data(), memory_.size());
  }
  const auto address = reinterpret_cast<uintptr_t>(memory_.data());
  next_ = memory_.data() + (round_up(address) - address);
}

unsigned char* SharedMemory::zone_end(const Piece& piece) const {
  return piece.data + round_up(piece.bytes) + kZone;
}

void* SharedMemory::take(size_t number, size_t bytes, std::source_location place) {
  if (number < pieces_.size()) {
    if (pieces_[number].bytes != bytes)
      stop(
          "piece {} of dynamic shared memory at {}:{}: another thread took {} bytes, this one "
          "takes {}",
          number, place.file_name(), place.line(), pieces_[number].bytes, bytes);
    return pieces_[number].data;
  }
  if (number == kMaxPieces) stop("more than {} pieces of dynamic shared memory", kMaxPieces);
  taken_ = round_up(taken_) + bytes;
  if (taken_ > bytes_)
    stop("dynamic shared memory at {}:{}: the block takes {} bytes, its launch gave {}",
         place.file_name(), place.line(), taken_, bytes_);
  const Piece piece{(pieces_.empty() ? next_ : zone_end(pieces_.back()) - kZone) + kZone, bytes,
                    place};
  pieces_.push_back(piece);
  permit(piece.data, bytes);
  std::memset(piece.data, kFreshByte, bytes);
  if (checker != nullptr) checker->allocated(piece.data, bytes, false);
  return piece.data;
}

void SharedMemory::check_zone(const unsigned char* begin, const unsigned char* end,
                              const Piece& piece, const char* side) const {
  const auto intact = [](unsigned char byte) { return byte == kZoneByte; };
  const unsigned char* changed = std::find_if_not(begin, end, intact);
  if (changed != end)
    stop(
        "block ({},{},{}) wrote {} the piece of {} bytes of dynamic shared memory taken at {}:{}, "
        "at byte {}",
        blockIdx.x, blockIdx.y, blockIdx.z, side, piece.bytes, piece.place.file_name(),
        piece.place.line(), changed - piece.data);
}

// The address sanitizer has seen every such write, and would see this look too.
void SharedMemory::end_block() {
  for (const Piece& piece : pieces_) {
    if constexpr (!kAddressSanitizer) {
      check_zone(piece.data - kZone, piece.data, piece, "before");
      check_zone(piece.data + piece.bytes, zone_end(piece), piece, "past");
      std::memset(piece.data, kZoneByte, piece.bytes);
    }
    forbid(piece.data, piece.bytes);
    if (checker != nullptr) checker->released(piece.data, piece.bytes);
  }
  pieces_.clear();
  taken_ = 0;
}

void* take_shared(size_t bytes, std::source_location place) {
  const OutsideKernel outside;
  return block.shared().take(block.current().pieces++, bytes, place);
}

}  // namespace linea::emulator
