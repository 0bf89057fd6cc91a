// Finds in kernels, whatever the order of their threads: races within a block and between blocks,
// reads of memory that no one wrote, and accesses outside of what kernels may touch. A thread is
// ordered after another of its block by barriers (epochs), and of its warp by what the warp did
// together (clocks, one a lane).
#include <algorithm>
#include <array>
#include <bit>
#include <string>
#include <utility>

#include "cuda/emulator/block/block.h"
#include "cuda/emulator/checker/kernel_checker.h"
#include "cuda/emulator/checker/places.h"
#include "cuda/emulator/checker/shadow.h"
#include "cuda/emulator/report.h"

namespace linea::emulator {
namespace {

const char* name_of(Access access) { return access == Access::read ? "read" : "write"; }

class KernelChecker final : public Checker {
 public:
  KernelChecker() { checker = this; }

  // ---- memory ----

  void allocated(const void* data, size_t bytes, bool written) override {
    set(data, bytes, true, written);
  }
  void released(const void* data, size_t bytes) override { set(data, bytes, false, false); }

  void device_writes(const void* data, size_t bytes) override {
    shadow_.change(data, bytes, [](Cell& cell, uint8_t mask, uintptr_t) {
      cell.written |= mask;
      cell.write_mask = cell.read_mask = 0;
    });
  }

  void device_reads(const void* data, size_t bytes) override {
    shadow_.look(data, bytes, [&](const Cell* cell, uint8_t mask, uintptr_t address) {
      if (cell == nullptr || (cell->written & mask) != mask)
        stop("a copy or a matrix product reads {} that nothing has written",
             places_.memory(address));
    });
  }

  // ---- who runs ----

  void launch_begins(const Launch& launch) override {
    places_.find();
    first_block_ = block_ + 1;
    threads_ = static_cast<int>(launch.block.x * launch.block.y * launch.block.z);
    arguments_ = reinterpret_cast<uintptr_t>(launch.arguments.get());
    argument_bytes_ = launch.argument_bytes;
  }

  void block_begins() override {
    ++block_;
    epoch_ = 0;
    for (int thread = 0; thread < (threads_ + 31) / 32 * 32; ++thread) {
      clocks_[static_cast<size_t>(thread)] = {};
      clocks_[static_cast<size_t>(thread)][thread % 32] = 1;
    }
  }

  void thread_runs(int thread, const void* stack, size_t stack_bytes) override {
    thread_ = thread;
    stack_ = reinterpret_cast<uintptr_t>(stack);
    stack_bytes_ = stack_bytes;
  }

  void block_met() override { ++epoch_; }

  void warp_met(int first_thread, unsigned lanes) override {
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

  // ---- what it does ----

  void touches(const void* data, size_t bytes, Access access, const void* code) override {
    const auto address = reinterpret_cast<uintptr_t>(data);
    if (address - stack_ < stack_bytes_) return;
    if (address - arguments_ < argument_bytes_ && access == Access::read) return;
    const bool was_in_kernel = in_kernel;
    in_kernel = false;  // functions of the standard library may be the kernels' own copies, which
                        // tell the checker
    code_ = places_.code(code);
    if (!in_other_thread_data(address, bytes))
      shadow_.touch(address, bytes, [&](Cell* cell, uint8_t mask, uintptr_t at) {
        touch(cell, mask, at, data, bytes, access);
      });
    in_kernel = was_in_kernel;
  }

 private:
  using Clocks = std::array<uint32_t, 32>;

  void set(const void* data, size_t bytes, bool valid, bool written) {
    shadow_.change(data, bytes, [&](Cell& cell, uint8_t mask, uintptr_t) {
      const auto without = static_cast<uint8_t>(~mask);
      cell.valid = static_cast<uint8_t>((cell.valid & without) | (valid ? mask : 0));
      cell.written = static_cast<uint8_t>((cell.written & without) | (written ? mask : 0));
      cell.write_mask &= without;
      cell.read_mask &= without;
    });
  }

  // A thread-local variable that is no shared array, such as the compiler's guards of them.
  bool in_other_thread_data(uintptr_t address, size_t bytes) {
    if (!places_.in_thread_data(address)) return false;
    enter(address + bytes - 1);
    return !enter(address);
  }

  // An array that the block has not touched yet holds nothing: all of a program's are too many to
  // be cleared for each.
  bool enter(uintptr_t address) {
    SharedArray* const array = places_.shared_array(address);
    if (array != nullptr && std::exchange(array->block, block_) != block_)
      set(reinterpret_cast<const void*>(array->begin), array->end - array->begin, true, false);
    return array != nullptr;
  }

  void touch(Cell* cell, uint8_t mask, uintptr_t at, const void* data, size_t bytes,
             Access access) {
    if (cell == nullptr || (cell->valid & mask) != mask) {
      if (!places_.in_program(at))
        stop(
            "{} of {} bytes at {}, outside of device and shared memory (past an end, freed, or the "
            "host's)\n"
            "    at:{}",
            name_of(access), bytes, data, places_.source(code_));
      set(reinterpret_cast<const void*>(at), kCellBytes, true, true);
      return;
    }
    if (access != Access::write && (cell->written & mask) != mask)
      stop("read of {} that nothing has written\n    at:{}", places_.memory(at),
           places_.source(code_));
    check_last_write(*cell, mask, at, access);
    if (access != Access::read) check_reads(*cell, mask, at, access);
    note(*cell, mask, access);
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
    if (cell.reader_warp == kManyWarps)
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

  void note(Cell& cell, uint8_t mask, Access access) const {
    const uint32_t clock = clocks()[static_cast<size_t>(thread_ % 32)];
    if (access != Access::read) {
      cell.written |= mask;
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
    const bool first =
        cell.read_mask == 0 || cell.read_block != block_ || cell.read_epoch != epoch_;
    cell.read_mask = static_cast<uint8_t>(first ? mask : cell.read_mask | mask);
    cell.reader_warp = first || cell.reader_warp == warp ? warp : kManyWarps;
    cell.reader_lanes = (first ? 0 : cell.reader_lanes) | 1u << (thread_ % 32);
    cell.read_clock = first ? clock : std::max(cell.read_clock, clock);
    cell.read_block = block_;
    cell.read_epoch = epoch_;
    cell.read_code = code_;
  }

  const Clocks& clocks() const { return clocks_[static_cast<size_t>(thread_)]; }

  [[noreturn]] void report_race(uintptr_t at, Access access, const char* first,
                                const std::string& by, uint32_t first_code) const {
    stop(
        "race on {}: a {} by {}, then a {} by thread {} with nothing that orders them\n    "
        "first:{}\n    then:{}",
        places_.memory(at), first, by, name_of(access), thread_, places_.source(first_code),
        places_.source(code_));
  }

  Shadow shadow_;
  Places places_;
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
