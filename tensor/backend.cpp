#include "tensor/backend.h"

#include <charconv>

#include "base/error.h"

namespace linea {
namespace {

// Set before main in programs that link cuda/.
const Backend* cuda_backend = nullptr;

const Backend& backend(const Device& device) {
  if (device.kind == DeviceKind::cpu) return cpu_backend();
  require(cuda_backend != nullptr,
          "`device` is '{}': this build has no CUDA backend; leave `device` out, say cpu, or build "
          "the preset cuda",
          device.str());
  return *cuda_backend;
}

}  // namespace

void register_cuda(const Backend& backend) { cuda_backend = &backend; }
bool built_with_cuda() { return cuda_backend != nullptr; }
std::vector<std::string> cuda_devices() {
  return built_with_cuda() ? cuda_backend->devices() : std::vector<std::string>();
}

const DeviceMemory& device_memory(Device device) { return backend(device).memory; }

Allocator& device_allocator() { return device_memory(context().device).allocator; }

template <typename T>
const Kernels<T>& kernels(Device device) {
  const Backend& own = backend(device);
  if constexpr (std::is_same_v<T, BFloat16>) {
    require(own.bf16 != nullptr, "`dtype` bf16 runs on a CUDA device; the {} stores f32",
            device.str());
    return *own.bf16;
  } else if constexpr (std::is_same_v<T, double>) {
    return own.f64;
  } else {
    return own.f32;
  }
}
template const Kernels<float>& kernels(Device);
template const Kernels<double>& kernels(Device);
template const Kernels<BFloat16>& kernels(Device);

std::unique_ptr<GraphRecorder> make_graph_recorder() {
  const Backend& own = backend(context().device);
  return own.make_graph_recorder == nullptr ? nullptr : own.make_graph_recorder(context());
}

Device parse_device(const std::string& text) {
  if (text == "cpu") return {};
  Device device{DeviceKind::cuda, 0};
  if (text == "cuda") return device;
  const char* const end = text.data() + text.size();
  const bool numbered = text.rfind("cuda:", 0) == 0;
  const auto [stop, error] = std::from_chars(text.data() + (numbered ? 5 : 0), end, device.index);
  require(numbered && error == std::errc{} && stop == end && device.index >= 0,
          "`device` is '{}'; choose cpu, cuda, or one of several as cuda:1", text);
  return device;
}

void use_device(const Device& device) {
  Context& ctx = context();
  if (ctx.device == device) return;
  Context next = ctx;
  next.device = device;
  backend(device).start(next);
  ctx = next;
}

}  // namespace linea
