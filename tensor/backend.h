// Backends: the CPU's is part of tensor/; cuda/ registers its own in programs that link it.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tensor/kernels.h"

namespace linea {

// Memory of a device, and transfers to and from it. Pointers named `host` are host memory.
struct DeviceMemory {
  Allocator& allocator;
  void (*clear)(Context&, void* to, size_t bytes);
  void (*copy)(Context&, void* to, const void* from, size_t bytes);
  void (*read)(Context&, void* host, const void* from, size_t bytes);
  void (*write)(Context&, void* to, const void* host, size_t bytes);
  void (*wait)(Context&);  // until all work queued on the device is done
};
// Error: ErrorKind::usage where this build has no such backend.
const DeviceMemory& device_memory(Device device);

// Captures work of a device as graphs and replays each by one launch, on the same memory. The work
// is cut into segments, numbered from 0. Tensors may live from the first segment to the last; after
// the last, all that the work allocated is released.
class GraphRecorder {
 public:
  virtual ~GraphRecorder() = default;
  // Runs `work`, which issues the same device work each time: eagerly at first, then captured, from
  // then on replayed without a call of `work`. False: capture failed (the work waits for the device
  // or reads host memory) and the device did nothing: undo what `work` did on the host and call
  // again, which runs it eagerly.
  virtual bool run(size_t segment, const std::function<void()>& work) = 0;
  // Kernels and copies of a captured segment; 0 where it was not captured.
  virtual size_t launches(size_t segment) const = 0;
  // Why capture failed; empty where it has not.
  virtual std::string refusal() const = 0;
};
// For the context's device; null where it cannot capture.
std::unique_ptr<GraphRecorder> make_graph_recorder();

struct Backend {
  const char* isa;  // instruction set of CPU kernels: "AVX-512", ...; null elsewhere
  const DeviceMemory memory;
  const Kernels<float>& f32;
  const Kernels<double>& f64;
  const Kernels<BFloat16>* bf16 = nullptr;  // null: the device does not store bf16
  // Sets up a context for ctx.device. Error: ErrorKind::usage where the machine has no such device.
  void (*start)(Context& ctx);
  std::vector<std::string> (*devices)() = nullptr;  // one line per device: its name and its memory
  // null: the device cannot capture
  std::unique_ptr<GraphRecorder> (*make_graph_recorder)(Context& ctx) = nullptr;
};

void register_cuda(const Backend& backend);
bool built_with_cuda();
// One line per CUDA device; empty where this build or this machine has none.
std::vector<std::string> cuda_devices();

// The CPU backend in use, and all that this processor runs, the widest vectors first. The
// environment variable LINEA_ISA selects another than the widest. Error: ErrorKind::usage where
// none has that name.
const Backend& cpu_backend();
std::vector<const Backend*> cpu_backends();
const char* cpu_isa();
std::vector<std::string> all_cpu_isas();

// The instruction set of bf16 products on the CPU ("AMX", "AVX512-BF16", "FMA", "BFMMLA"; null where
// there is none), and all that this processor runs, the fastest first. LINEA_ISA selects one of these names;
// with the name of a backend, that backend's own. `bf16_is_fast`: faster than products of float.
const char* bf16_isa();
std::vector<std::string> all_bf16_isas();
bool bf16_is_fast();
// Whether FloatProducts::rounded also rounds the chunks of linear attention on the CPU, and sampling
// multiplies rounded rows: where that is faster.
bool rounds_chunks();
// How a context multiplies the chunks of linear attention on the CPU. Those with decays in float: the
// gradient of a log decay is a sum of nearly canceling terms over all later keys, so rounding errors
// dominate it.
FloatProducts chunk_products(const Context&, bool decays);

}  // namespace linea
