// The per-thread device context: where work runs, and what changes from step to step.
#pragma once

#include <cstdint>

#include "tensor/element.h"
#include "tensor/memory.h"

namespace linea {

// What changes each step of training, kept where the device reads it, so that a whole step can be
// recorded once and replayed. The optimizer's kernels read everything here and take only constants.
struct StepParams {
  uint64_t seed = 0;
  uint64_t step = 0;         // of the data and of dropout
  double learning_rate = 0;  //
  double correction1 = 1;    // 1 / (1 - beta1^t)
  double correction2 = 1;    // 1 / (1 - beta2^t)
  double rectification = 1;  // RAdam's r_t, or a negative number while its variance is intractable
  double loss_limit = 0;     // an update of a larger loss is not made; 0: of any finite loss
  double norm_limit = 0;     // likewise of the gradients' norm
  // Written by the clip kernel:
  double clip_scale = 1;  // min(1, clip / norm); NaN: no update
  double gradient_norm = 0;
  double loss = 0;  // of the step, as the kernel was given it
};

// The pieces in which a device's work is cut.
struct WorkSizes {
  int64_t block = 524288;  // elements of the widest matrix that a layer makes at a time: they stay
                           // in a CPU's cache
  int64_t tile =
      65536;  // elements of a tile of an attention's features, one a thread of a CPU, likewise
  int64_t segment = 256;  // positions of a tile whose features are made by tensor ops
  bool panels = true;     // while sampling, weights lie in panels
  int64_t pending =
      0;  // while sampling, keys that wait beside a state (tensor/kernel_shapes.h, PendingUpdates)
  int64_t token_buffer = 1;  // positions sampled before the host reads their tokens
  int64_t parts = 1;         // streams of a batch that may be sampled concurrently
  int64_t tiles =
      0;  // of 64 positions in a chunk, on a GPU, which leaves one state; 0: chosen by the shape
  int64_t blocks = 512;  // of threads that keep a GPU busy
};

struct Context {
  Device device;
  Allocator* workspace = nullptr;  // temporary memory of kernels
  void* queue = nullptr;       // the device's, in which its work is done in order; unused on a CPU
  StepParams* step = nullptr;  // the host's
  StepParams* step_on_device = nullptr;  // what kernels read; the same on a CPU
  int threads = 1;                       // that a kernel's parallel region uses
  FloatProducts products =
      FloatProducts::exact;  // on a GPU; rounded: in all matrix products of float
  WorkSizes sizes{};
};

// The calling thread's context; starts as the CPU with every core that OpenMP offers.
Context& context();

// Brings this thread to a device: what it makes from now on lies and runs there. Error:
// ErrorKind::usage where this build or this machine has no such device.
void use_device(const Device& device);

// Sends the host's StepParams to the device, or brings the device's back to the host. Nothing on a
// CPU.
void send_step(Context&);
void fetch_step(Context&);

// Sets the number of threads of kernels and of BLAS. Error: below 1.
void set_threads(int threads);

// Checks the BLAS that is loaded: OpenBLAS built for OpenMP, for any other would fight our own
// parallel regions for the cores. Error: ErrorKind::usage with what was found and what to install.
void check_blas();

// Where the memory of this process is limited (ulimit -v): has BLAS take the buffers of all threads
// now, for where it gets none it asks for them again, for ever.
void take_blas_buffers();

// "OpenBLAS 0.3.21 ...", the kernels it chose for this CPU, and its flavor.
struct BlasInfo {
  const char* version;
  const char* kernel;
  const char* flavor;
  int threads;
};
BlasInfo blas_info();

}  // namespace linea
