// Finds data races within and between blocks, uninitialized reads and invalid accesses in kernels,
// independent of the scheduling order. Happens-before between threads of a block follows from block
// barriers (epochs), and within a warp also from warp operations (vector clocks, one entry a lane).
#include <algorithm>
#include <array>
#include <bit>
#include <string>
#include <utility>

#include "cuda/emulator/block/block.h"
#include "cuda/emulator/checker/kernel_checker.h"
#include "cuda/emulator/checker/shadow.h"
#include "cuda/emulator/checker/symbolizer.h"
#include "cuda/emulator/checker/warp_accesses.h"
#include "cuda/emulator/report.h"
#include "cuda/emulator/runtime/arena.h"

namespace linea::emulator {
namespace {

const char* to_string(Access access) { return access == Access::read ? "read" : "write"; }

class KernelChecker final : public Checker {
 public:
  KernelChecker() { checker = this; }

  // ---- memory ----

  void on_allocate(const void* data, size_t bytes, bool initialized) override {
    set_state(data, bytes, true, initialized);
  }
  void on_free(const void* data, size_t bytes) override { set_state(data, bytes, false, false); }

  void on_device_write(const void* data, size_t bytes) override {
    shadow_.update(data, bytes, [](Cell& cell, uint8_t mask, uintptr_t) {
      cell.initialized |= mask;
      cell.write_mask = cell.read_mask = 0;
    });
  }

  void on_device_read(const void* data, size_t bytes) override {
    shadow_.inspect(data, bytes, [&](const Cell* cell, uint8_t mask, uintptr_t address) {
      if (cell == nullptr || (cell->initialized & mask) != mask)
        fatal("a copy or matrix product reads uninitialized {}", symbolizer_.memory_name(address));
    });
  }

  // ---- execution ----

  void on_launch(const Launch& launch) override {
    symbolizer_.refresh();
    first_block_ = block_ + 1;
    threads_ = static_cast<int>(launch.block.x * launch.block.y * launch.block.z);
    arguments_ = reinterpret_cast<uintptr_t>(launch.arguments.get());
    argument_bytes_ = launch.argument_bytes;
    warp_accesses_.begin(launch);
  }

  void on_block_start() override {
    ++block_;
    epoch_ = 0;
    for (int thread = 0; thread < (threads_ + 31) / 32 * 32; ++thread) {
      clocks_[static_cast<size_t>(thread)] = {};
      clocks_[static_cast<size_t>(thread)][thread % 32] = 1;
    }
  }

  void on_block_end() override { on_block_barrier(); }

  void on_thread_switch(int thread, const void* stack, size_t stack_bytes) override {
    thread_ = thread;
    stack_ = reinterpret_cast<uintptr_t>(stack);
    stack_bytes_ = stack_bytes;
  }

  void on_block_barrier() override {
    ++epoch_;
    for (int warp = 0; warp * 32 < threads_; ++warp) warp_accesses_.count(warp, ~0u);
  }

  void on_warp_sync(int first_thread, unsigned lanes) override {
    warp_accesses_.count(first_thread / 32, lanes | ~block.live_lanes());
    Clocks latest{};
    for (int lane = 0; lane < 32; ++lane) {
      if ((lanes >> lane & 1) == 0) continue;
      const Clocks& own = clocks_[static_cast<size_t>(first_thread + lane)];
      for (size_t i = 0; i < 32; ++i) latest[i] = std::max(latest[i], own[i]);
    }
    for (int lane = 0; lane < 32; ++lane) {
      if ((lanes >> lane & 1) == 0) continue;
      Clocks& own = clocks_[static_cast<size_t>(first_thread + lane)];
      own = latest;
      ++own[static_cast<size_t>(lane)];
    }
  }

  // ---- accesses ----

  void on_access(const void* data, size_t bytes, Access access, const void* code,
                 int lane) override {
    const auto address = reinterpret_cast<uintptr_t>(data);
    if (address - stack_ < stack_bytes_) return;
    if (address - arguments_ < argument_bytes_ && access == Access::read) return;
    const bool was_in_kernel = in_kernel;
    in_kernel = false;  // the linker may use instrumented copies of standard library functions here
    code_ = symbolizer_.code_offset(code);
    if (warp_accesses_.enabled() && access != Access::atomic && lane != kNoLane)
      add_warp_access(data, bytes, access, lane);
    if (!in_private_thread_data(address, bytes))
      shadow_.access(address, bytes, [&](Cell* cell, uint8_t mask, uintptr_t at) {
        check_access(cell, mask, at, data, bytes, access);
      });
    in_kernel = was_in_kernel;
  }

 private:
  using Clocks = std::array<uint32_t, 32>;

  void add_warp_access(const void* data, size_t bytes, Access access, int lane) {
    const auto address = reinterpret_cast<uintptr_t>(data);
    const bool shared = block.shared().contains(data) ||
                        (symbolizer_.in_thread_data(address) && symbolizer_.shared_array(address));
    if (!shared && !arena().contains(data)) return;
    warp_accesses_.add(thread_ / 32, lane == kRunningLane ? thread_ % 32 : lane, address, bytes,
                       shared, access == Access::write, code_);
  }

  void set_state(const void* data, size_t bytes, bool accessible, bool initialized) {
    shadow_.update(data, bytes, [&](Cell& cell, uint8_t mask, uintptr_t) {
      const auto other_bytes = static_cast<uint8_t>(~mask);
      cell.accessible =
          static_cast<uint8_t>((cell.accessible & other_bytes) | (accessible ? mask : 0));
      cell.initialized =
          static_cast<uint8_t>((cell.initialized & other_bytes) | (initialized ? mask : 0));
      cell.write_mask &= other_bytes;
      cell.read_mask &= other_bytes;
    });
  }

  // A thread-local variable that is not a shared array, such as the compiler's guard of one.
  bool in_private_thread_data(uintptr_t address, size_t bytes) {
    if (!symbolizer_.in_thread_data(address)) return false;
    enter_shared_array(address + bytes - 1);
    return !enter_shared_array(address);
  }

  // Marks a shared array as uninitialized on the block's first access to it; a program has too many
  // to reset all of them for every block. Returns whether the address is in a shared array.
  bool enter_shared_array(uintptr_t address) {
    SharedArray* const array = symbolizer_.shared_array(address);
    if (array != nullptr && std::exchange(array->block, block_) != block_)
      set_state(reinterpret_cast<const void*>(array->begin), array->end - array->begin, true,
                false);
    return array != nullptr;
  }

  void check_access(Cell* cell, uint8_t mask, uintptr_t at, const void* data, size_t bytes,
                    Access access) {
    if (cell == nullptr || (cell->accessible & mask) != mask) {
      if (!symbolizer_.in_program(at))
        fatal(
            "{} of {} bytes at {}, outside of device and shared memory (out of bounds, freed, or "
            "host memory)\n"
            "    at:{}",
            to_string(access), bytes, data, symbolizer_.source_lines(code_));
      set_state(reinterpret_cast<const void*>(at), kCellBytes, true, true);
      return;
    }
    if (access != Access::write && (cell->initialized & mask) != mask)
      fatal("uninitialized read of {}\n    at:{}", symbolizer_.memory_name(at),
            symbolizer_.source_lines(code_));
    check_last_write(*cell, mask, at, access);
    if (access != Access::read) check_reads(*cell, mask, at, access);
    record(*cell, mask, access);
  }

  void check_last_write(const Cell& cell, uint8_t mask, uintptr_t at, Access access) const {
    if ((cell.write_mask & mask) == 0 || cell.write_block < first_block_) return;
    if (access == Access::atomic && cell.write_atomic) return;
    if (cell.write_block != block_)
      report_race(at, access, "write", "another block", cell.write_code);
    if (cell.write_epoch != epoch_ || cell.writer == thread_) return;
    const bool same_warp = cell.writer / 32 == thread_ / 32;
    if (same_warp && clocks()[cell.writer % 32] >= cell.write_clock) return;
    report_race(at, access, "write", fmt::format("thread {}", cell.writer), cell.write_code);
  }

  void check_reads(const Cell& cell, uint8_t mask, uintptr_t at, Access access) const {
    if ((cell.read_mask & mask) == 0 || cell.read_block < first_block_) return;
    if (cell.read_block != block_) report_race(at, access, "read", "another block", cell.read_code);
    if (cell.read_epoch != epoch_) return;
    if (cell.reader_warp == kSeveralWarps)
      report_race(at, access, "read", "threads of several warps", cell.read_code);
    if (cell.reader_warp != thread_ / 32)
      report_race(
          at, access, "read",
          fmt::format("thread {}", cell.reader_warp * 32 + std::countr_zero(cell.reader_lanes)),
          cell.read_code);
    for (int lane = 0; lane < 32; ++lane)
      if (lane != thread_ % 32 && (cell.reader_lanes >> lane & 1) != 0 &&
          clocks()[static_cast<size_t>(lane)] < cell.read_clock)
        report_race(at, access, "read", fmt::format("thread {}", cell.reader_warp * 32 + lane),
                    cell.read_code);
  }

  void record(Cell& cell, uint8_t mask, Access access) const {
    const uint32_t clock = clocks()[static_cast<size_t>(thread_ % 32)];
    if (access != Access::read) {
      cell.initialized |= mask;
      cell.write_mask = mask;
      cell.write_atomic = access == Access::atomic;
      cell.writer = static_cast<uint16_t>(thread_);
      cell.write_block = block_;
      cell.write_epoch = epoch_;
      cell.write_clock = clock;
      cell.write_code = code_;
      return;
    }
    const auto warp = static_cast<uint16_t>(thread_ / 32);
    const bool is_first =
        cell.read_mask == 0 || cell.read_block != block_ || cell.read_epoch != epoch_;
    cell.read_mask = static_cast<uint8_t>(is_first ? mask : cell.read_mask | mask);
    cell.reader_warp = is_first || cell.reader_warp == warp ? warp : kSeveralWarps;
    cell.reader_lanes = (is_first ? 0 : cell.reader_lanes) | 1u << (thread_ % 32);
    cell.read_clock = is_first ? clock : std::max(cell.read_clock, clock);
    cell.read_block = block_;
    cell.read_epoch = epoch_;
    cell.read_code = code_;
  }

  const Clocks& clocks() const { return clocks_[static_cast<size_t>(thread_)]; }

  [[noreturn]] void report_race(uintptr_t at, Access access, const char* first,
                                const std::string& by, uint32_t first_code) const {
    fatal(
        "data race on {}: a {} by {}, then an unordered {} by thread {}\n    first:{}\n    then:{}",
        symbolizer_.memory_name(at), first, by, to_string(access), thread_,
        symbolizer_.source_lines(first_code), symbolizer_.source_lines(code_));
  }

  Shadow shadow_;
  Symbolizer symbolizer_;
  WarpAccesses warp_accesses_;
  std::array<Clocks, kMaxThreads> clocks_{};
  int thread_ = 0, threads_ = 0;
  uintptr_t stack_ = 0, arguments_ = 0;
  size_t stack_bytes_ = 0, argument_bytes_ = 0;
  uint32_t block_ = 1, first_block_ = 1, epoch_ = 0, code_ = 0;
};

KernelChecker instance;

}  // namespace

Checker& kernel_checker() { return instance; }

}  // namespace linea::emulator
