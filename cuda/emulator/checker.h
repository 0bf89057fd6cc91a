// The events that a kernel checker observes. Programs linked with cuda/emulator/checker/ have a
// checker; in all others the pointer is null.
#pragma once

#include <cstddef>

#include "cuda/emulator/device/atomics.h"
#include "cuda/emulator/launch.h"

namespace linea::emulator {

class Checker {
 public:
  virtual ~Checker() = default;

  // ---- memory that kernels may access ----
  virtual void on_allocate(const void* data, size_t bytes, bool initialized) = 0;
  virtual void on_free(const void* data, size_t bytes) = 0;
  virtual void on_device_write(const void* data, size_t bytes) = 0;  // a copy or a matrix product
  virtual void on_device_read(const void* data, size_t bytes) = 0;

  // ---- execution ----
  virtual void on_launch(const Launch& launch) = 0;
  virtual void on_block_start() = 0;
  virtual void on_block_end() = 0;
  virtual void on_thread_switch(int thread, const void* stack, size_t stack_bytes) = 0;
  virtual void on_block_barrier() = 0;
  virtual void on_warp_sync(int first_thread, unsigned lanes) = 0;

  // ---- accesses of the running thread; `code`: an address in the accessing code ----
  virtual void on_access(const void* data, size_t bytes, Access access, const void* code,
                         int lane) = 0;
};

extern Checker* checker;  // or null

}  // namespace linea::emulator
