// Shadow memory: for each two bytes, whether kernels may access them, whether they are initialized,
// and the last accesses.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <unordered_map>

namespace linea::emulator {

inline constexpr uintptr_t kCellBytes = 2, kPageBytes = 4096;
inline constexpr uint16_t kSeveralWarps = 0xFFFF;

// Masks have one bit per byte. Block numbers are unique over all launches. An epoch is the interval
// between two block barriers; clocks are those of a warp's lanes. `code` is an offset from the
// start of the program.
struct Cell {
  uint8_t accessible = 0, initialized = 0;

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
  // Calls visit(cell, byte mask, address) for each cell of the range, creating missing cells; only
  // once for a page whose cells are all alike.
  template <typename Visit>
  void update(const void* data, size_t bytes, const Visit& visit) {
    each_page(data, bytes, [&](uintptr_t begin, uintptr_t end) {
      if (end - begin == kPageBytes)
        if (Page& page = pages_[begin / kPageBytes]; page.cells == nullptr)
          return visit(page.all, kWholeCell, begin);
      each_cell(begin, end, [&](uintptr_t at, uint8_t mask) { visit(*find(at, true), mask, at); });
    });
  }

  // Visits the cells of a thread's access to a few bytes; a cell is null if there is none.
  template <typename Visit>
  void access(uintptr_t address, size_t bytes, const Visit& visit) {
    each_cell(address, address + bytes,
              [&](uintptr_t at, uint8_t mask) { visit(find(at, false), mask, at); });
  }

  // Visits the cells of any range, without creating cells.
  template <typename Visit>
  void inspect(const void* data, size_t bytes, const Visit& visit) {
    each_page(data, bytes, [&](uintptr_t begin, uintptr_t end) {
      if (end - begin == kPageBytes)
        if (const auto page = pages_.find(begin / kPageBytes);
            page != pages_.end() && page->second.cells == nullptr)
          return visit(&page->second.all, kWholeCell, begin);
      each_cell(begin, end, [&](uintptr_t at, uint8_t mask) { visit(find(at, false), mask, at); });
    });
  }

 private:
  using Cells = std::array<Cell, kPageBytes / kCellBytes>;
  struct Page {
    Cell all;  // the state of every cell while `cells` is null
    std::unique_ptr<Cells> cells;
  };
  static constexpr uint8_t kWholeCell = (1 << kCellBytes) - 1;

  template <typename Visit>
  static void each_page(const void* data, size_t bytes, const Visit& visit) {
    uintptr_t at = reinterpret_cast<uintptr_t>(data);
    for (const uintptr_t end = at + bytes; at < end;) {
      const uintptr_t stop = std::min(end, (at / kPageBytes + 1) * kPageBytes);
      visit(at, stop);
      at = stop;
    }
  }

  template <typename Visit>
  static void each_cell(uintptr_t at, uintptr_t end, const Visit& visit) {
    while (at < end) {
      const uintptr_t cell = at & ~(kCellBytes - 1), stop = std::min(end, cell + kCellBytes);
      const unsigned mask = ((1u << (stop - at)) - 1) << (at - cell);
      visit(cell, static_cast<uint8_t>(mask));
      at = stop;
    }
  }

  Cell* find(uintptr_t address, bool create) {
    const uintptr_t number = address / kPageBytes;
    Recent& recent = recent_[number % recent_.size()];
    if (recent.cells == nullptr || recent.number != number) {
      if (!create && !pages_.contains(number)) return nullptr;
      Page& page = pages_[number];
      if (page.cells == nullptr) {
        page.cells = std::make_unique<Cells>();
        page.cells->fill(page.all);
      }
      recent = {number, page.cells.get()};
    }
    return &(*recent.cells)[address % kPageBytes / kCellBytes];
  }

  struct Recent {
    uintptr_t number = 0;
    Cells* cells = nullptr;
  };
  std::unordered_map<uintptr_t, Page> pages_;
  std::array<Recent, 4096> recent_{};
};

}  // namespace linea::emulator
