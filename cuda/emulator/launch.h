// Kernel launches, and the dynamic shared memory of a block.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <memory>
#include <source_location>
#include <tuple>

namespace linea::emulator {

// A kernel, its grid and its arguments. `run` calls the kernel with `arguments` on behalf of the
// running CUDA thread.
struct Launch {
  const void* kernel = nullptr;
  dim3 grid, block;
  size_t shared_bytes = 0;
  void (*run)(const void* arguments) = nullptr;
  std::shared_ptr<const void> arguments{};
  size_t argument_bytes = 0;
};

// Asynchronous, like a real launch: returns an error if a device would refuse the launch; nothing
// has run on return.
cudaError_t enqueue(Launch launch, cudaStream_t stream);

template <typename... Params>
cudaError_t launch_kernel(void (*kernel)(Params...), dim3 grid, dim3 block, size_t shared_bytes,
                          cudaStream_t stream, std::type_identity_t<Params>... values) {
  struct Call {
    void (*kernel)(Params...);
    std::tuple<std::decay_t<Params>...> values;
  };
  Launch launch;
  launch.kernel = reinterpret_cast<const void*>(kernel);
  launch.grid = grid;
  launch.block = block;
  launch.shared_bytes = shared_bytes;
  launch.run = [](const void* arguments) {
    const Call& call = *static_cast<const Call*>(arguments);
    std::apply(call.kernel, call.values);
  };
  launch.arguments = std::make_shared<const Call>(Call{kernel, {values...}});
  launch.argument_bytes = sizeof(Call);
  return enqueue(std::move(launch), stream);
}

// The next array of the running block's dynamic shared memory. All threads of a block take the same
// arrays in the same order.
void* take_shared(size_t bytes, std::source_location location);

}  // namespace linea::emulator
