// What the checker knows of each two bytes of memory: whether kernels may touch them, whether anyone has written
// them, and who touched them last.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <unordered_map>

namespace linea::emulator {

inline constexpr uintptr_t kCellBytes = 2, kPageBytes = 4096;
inline constexpr uint16_t kManyWarps = 0xFFFF;

// Masks have one bit a byte. Blocks are numbered through all launches; an epoch is what lies between two barriers of
// a block; clocks are those of the lanes of a warp. `code` is relative to the start of the program.
struct Cell {
  uint8_t valid = 0, written = 0;

  uint8_t write_mask = 0;
  bool write_atomic = false;
  uint16_t writer = 0;
  uint32_t write_block = 0, write_epoch = 0, write_clock = 0, write_code = 0;

  uint8_t read_mask = 0;
  uint16_t reader_warp = 0;
  uint32_t reader_lanes = 0;
  uint32_t read_block = 0, read_epoch = 0, read_clock = 0, read_code = 0;
};

class Shadow {
 public:
  // visit(cell, mask of bytes, address) for each cell of the range, which is made where there is none.
  template <typename Visit>
  void change(const void* data, size_t bytes, const Visit& visit) {
    walk(data, bytes, [&](uintptr_t address, uint8_t mask) { visit(*find(address, true), mask, address); });
  }

  // The same, but the cell is null where there is none.
  template <typename Visit>
  void look(const void* data, size_t bytes, const Visit& visit) {
    walk(data, bytes, [&](uintptr_t address, uint8_t mask) { visit(find(address, false), mask, address); });
  }

 private:
  using Page = std::array<Cell, kPageBytes / kCellBytes>;

  template <typename Visit>
  static void walk(const void* data, size_t bytes, const Visit& visit) {
    uintptr_t at = reinterpret_cast<uintptr_t>(data);
    const uintptr_t end = at + bytes;
    while (at < end) {
      const uintptr_t cell = at & ~(kCellBytes - 1), stop = std::min(end, cell + kCellBytes);
      const unsigned mask = ((1u << (stop - at)) - 1) << (at - cell);
      visit(cell, static_cast<uint8_t>(mask));
      at = stop;
    }
  }

  Cell* find(uintptr_t address, bool make) {
    const uintptr_t number = address / kPageBytes;
    Recent& recent = recent_[number % recent_.size()];
    if (recent.page == nullptr || recent.number != number) {
      const auto found = pages_.find(number);
      if (found == pages_.end() && !make) return nullptr;
      recent.page = found != pages_.end() ? found->second.get() : (pages_[number] = std::make_unique<Page>()).get();
      recent.number = number;
    }
    return &(*recent.page)[address % kPageBytes / kCellBytes];
  }

  struct Recent {
    uintptr_t number = 0;
    Page* page = nullptr;
  };
  std::unordered_map<uintptr_t, std::unique_ptr<Page>> pages_;
  std::array<Recent, 4096> recent_{};
};

}  // namespace linea::emulator
