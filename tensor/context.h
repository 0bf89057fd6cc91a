// The per-thread device context: where work runs, and what changes from step to step.
#pragma once

#include <cstdint>
#include <limits>

#include "base/scoped.h"
#include "tensor/element.h"
#include "tensor/memory.h"

namespace linea {

// Values that change with each training step, in memory that the device reads: a captured step can
// be replayed. The optimizer's kernels read them here; their arguments are constants.
struct StepParams {
  uint64_t seed = 0;
  uint64_t step = 0;  // of the data and of dropout
  double learning_rate = 0;
  double correction1 = 1;    // 1 / (1 - beta1^t)
  double correction2 = 1;    // 1 / (1 - beta2^t)
  double rectification = 1;  // RAdam's r_t, or a negative number while its variance is intractable
  double loss_limit = 0;     // updates with a larger loss are skipped; 0: only non-finite ones
  double norm_limit = 0;     // likewise for the gradient norm
  // Written by the clip kernel:
  double clip_scale = 1;  // min(1, clip / gradient_norm); NaN: no update
  double gradient_norm = 0;
  double loss = 0;

  // From gradient_norm and loss; `clip` 0: none.
  LINEA_HOST_DEVICE void set_clip_scale(double clip) {
    const auto within = [](double x, double limit) {
      return x - x == 0 && (limit == 0 || x <= limit);
    };
    const bool usable = within(gradient_norm, norm_limit) && within(loss, loss_limit);
    const double scale = clip > 0 && gradient_norm > clip ? clip / gradient_norm : 1.0;
    clip_scale = usable ? scale : std::numeric_limits<double>::quiet_NaN();
  }
};

// How work is divided on a device.
struct WorkSizes {
  // Elements of the widest matrix that a layer computes at a time, and of a tile of attention
  // features, one a CPU thread: both fit in a CPU's cache.
  int64_t block = 524288, tile = 65536;
  int64_t segment = 256;  // positions of a tile whose features are computed by tensor ops
  bool panels = true;     // sampling uses weights packed in panels
  // While sampling: capacity of the pending updates of a state (tensor/kernel_shapes.h); positions
  // sampled before the host reads their tokens.
  int64_t pending = 0, token_buffer = 1;
  // On a GPU: thread blocks that keep it busy; chunks whose walk takes as long as the launches that
  // cut it.
  int64_t blocks = 512, cut = 16;
};

// Which rows of a training step a batch has: [first, ...) of the `all` rows of the step, which may
// be cut into batches and over processes, `length` tokens each. Random numbers go by a row's number
// in its step. all = 0: the batch is the whole step. Of each sequence the batch has the positions
// [first_position, first_position + positions); positions = 0: all.
struct StepRows {
  int64_t first = 0, all = 0, length = 0;
  int64_t first_position = 0, positions = 0;
};

struct Context {
  Device device;
  Allocator* workspace = nullptr;        // temporary memory of kernels
  void* queue = nullptr;                 // the device's in-order work queue; unused on a CPU
  StepParams* step = nullptr;            // in host memory
  StepParams* step_on_device = nullptr;  // read by kernels; the same memory on a CPU
  int threads = 1;                       // of a kernel's parallel region
  // On a GPU, in attention kernels; `rounded` applies to all matrix products of float. On a CPU
  // it rounds to bf16 the factors of the products of layers and (AVX512-BF16) linear attention.
  FloatProducts products = FloatProducts::exact;
  WorkSizes sizes{};
  StepRows rows{};
};

// The calling thread's context; initially the CPU with all cores that OpenMP offers. The first call
// sets OpenMP's default number of threads to 1, which BLAS takes: a program with parallel regions of
// its own names their threads.
Context& context();

// For its lifetime the batch of this thread, and of those that work for it, has these rows.
struct BatchOfStep : Scoped<StepRows> {
  explicit BatchOfStep(const StepRows& rows) : Scoped(context().rows, rows) {}
};

// Switches this thread to a device: new tensors and ops use it. Error: ErrorKind::usage where this
// build or this machine has no such device.
void use_device(const Device& device);

// Copies StepParams from host to device, or back. No effect on a CPU.
void send_step(Context&);
void fetch_step(Context&);

// Sets the number of threads of kernels. Error: below 1.
void set_threads(int threads);

// Checks that the loaded BLAS is OpenBLAS built for OpenMP; the threads of any other would compete
// with our parallel regions. Error: ErrorKind::usage, naming what was found and what to install.
void check_blas();

// Where the address space is limited (ulimit -v): makes BLAS allocate the buffers of all threads
// now. Later, where an allocation fails, it retries forever.
void take_blas_buffers();

// "OpenBLAS 0.3.21 ...", the kernels it chose for this CPU, and its flavor.
struct BlasInfo {
  const char* version;
  const char* kernel;
  const char* flavor;
};
BlasInfo blas_info();

}  // namespace linea
