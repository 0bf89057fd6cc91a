// What a checker of kernels is told. Programs that are linked with cuda/emulator/checker/ have one;
// in the others there is none and nothing is told.
#pragma once

#include <cstddef>

#include "cuda/emulator/device/atomics.h"
#include "cuda/emulator/launch.h"

namespace linea::emulator {

class Checker {
 public:
  virtual ~Checker() = default;

  // ---- memory that kernels may touch ----
  virtual void allocated(const void* data, size_t bytes, bool written) = 0;
  virtual void released(const void* data, size_t bytes) = 0;
  virtual void device_writes(const void* data, size_t bytes) = 0;  // a copy, or a matrix product
  virtual void device_reads(const void* data, size_t bytes) = 0;

  // ---- who runs ----
  virtual void launch_begins(const Launch& launch) = 0;
  virtual void block_begins() = 0;
  virtual void thread_runs(int thread, const void* stack, size_t stack_bytes) = 0;
  virtual void block_met() = 0;  // all its threads, at a barrier
  virtual void warp_met(int first_thread, unsigned lanes) = 0;

  // ---- what the running thread does ----
  virtual void touches(const void* data, size_t bytes, Access access, const void* code) = 0;
};

extern Checker* checker;  // null: none

}  // namespace linea::emulator
