#include "bench/device_rates.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "autograd/gradcheck.h"
#include "bench/bench.h"
#include "tensor/backend.h"
#include "tensor/cpu/simd.h"
#include "tensor/ops.h"
#include "train/timing.h"

namespace linea {
namespace {

constexpr double kEnough = 2e-3;  // seconds of one measurement, long against a launch and a wait
constexpr int64_t kWidest = 8192, kMaxBytes = int64_t{1} << 30;

bool on_cpu() { return context().device.kind == DeviceKind::cpu; }

double seconds_of(const std::function<void()>& work) {
  work();
  return bench::median_seconds(0, work);
}

std::function<void()> product_of(int64_t size, DType dtype) {
  const auto factor = [&](uint32_t stream_id) {  // numbers at random, made where they are needed
    const DType sums = sum_dtype(dtype);
    const Tensor some = ops::dropout(Tensor::full({size, size}, sums, 0.5), 0.5f, stream_id);
    return ops::cast(ops::add_rows(some, random_tensor({size}, stream_id, 1, 0, sums)), dtype);
  };
  const Tensor a = factor(1), b = factor(2);
  return [a, b] { ops::matmul(a, b); };
}

// Eight sums that do not wait for one another, so that it is memory that is measured.
float sum_of(const float* data, int64_t count) {
  using V = cpu::VectorOf<float, 16>::type;
  constexpr int64_t kSums = 8, kWidth = 4;
  V sums[kSums] = {};
  for (int64_t i = 0; i + kSums * kWidth <= count; i += kSums * kWidth)
#pragma GCC unroll 8
    for (int64_t j = 0; j < kSums; ++j)
      sums[j] += *reinterpret_cast<const V*>(data + i + j * kWidth);
  float total = 0;
#pragma GCC unroll 8
  for (int64_t j = 0; j < kSums; ++j)
    for (int64_t stream_id = 0; stream_id < kWidth; ++stream_id) total += sums[j][stream_id];
  return total;
}

double read_rate_of_cpu(double bytes) {
  const Tensor memory = Tensor::full({static_cast<int64_t>(bytes) / 4}, DType::f32, 1);
  const float* data = memory.data<float>();
  const int64_t count = memory.numel(), threads = context().threads;
  double best = 0;
  volatile float seen = 0;
  for (int pass = 0; pass < 30; ++pass) {
    const Stopwatch watch;
    float sum = 0;
#pragma omp parallel for reduction(+ : sum) num_threads(context().threads)
    for (int64_t part = 0; part < threads; ++part)
      sum += sum_of(data + count * part / threads, count / threads);
    seen = sum;
    best = std::max(best, bytes / watch.seconds());
  }
  (void)seen;
  return best;
}

double read_rate_of_device() {
  for (int64_t bytes = int64_t{1} << 20;; bytes *= 4) {
    const Tensor memory = Tensor::full({bytes / 4}, DType::f32, 1),
                 total = Tensor::zeros({1}, DType::f64);
    const TrainedParameter<float> read{memory.data<float>(), nullptr, nullptr, nullptr,
                                       memory.numel(),       0};
    const auto seconds = [&](int passes) {
      return seconds_of([&] {
        for (int i = 0; i < passes; ++i)
          kernels<float>(context().device).sum_squares(context(), &read, 1, total.data<double>());
      });
    };
    constexpr int kPasses = 16;  // of as much memory as is taken at most
    if (bytes >= kMaxBytes) return kPasses * static_cast<double>(bytes) / seconds(kPasses);
    if (const double once = seconds(1); once >= kEnough) return static_cast<double>(bytes) / once;
  }
}

}  // namespace

double product_rate(DType dtype, double seconds) {
  int64_t size = on_cpu() ? 2048 : 256;
  while (!on_cpu() && size < kWidest && seconds_of(product_of(size, dtype)) < kEnough) size *= 2;
  const std::function<void()> work = product_of(size, dtype);
  work();
  const auto n = static_cast<double>(size);
  return 2 * n * n * n / bench::median_seconds(seconds, work);
}

double launch_seconds() {
  constexpr int kLaunches = 200;
  const Tensor number = Tensor::zeros({1}, DType::f32);
  const std::unique_ptr<GraphRecorder> recorder = make_graph_recorder();
  const auto work = [&] {
    for (int i = 0; i < kLaunches; ++i)
      kernels<float>(context().device).fill(context(), number.data<float>(), i, 1);
  };
  return seconds_of([&] {
           if (recorder == nullptr || !recorder->run(0, work)) work();
         }) /
         kLaunches;
}

double read_rate(double bytes) {
  return on_cpu() ? read_rate_of_cpu(bytes) : read_rate_of_device();
}

std::vector<std::string> rates_of_cuda() try {
  const struct Restored {
    ~Restored() { context() = before; }
    const Context before = context();
  } restored;
  use_device({DeviceKind::cuda, 0});
  const auto teraflops = [](DType dtype, FloatProducts products) {
    context().products = products;
    return product_rate(dtype, 0.1) / 1e12;
  };
  const double rounded = teraflops(DType::f32, FloatProducts::rounded);
  const double strict = teraflops(DType::f32, FloatProducts::exact),
               halves = teraflops(DType::bf16, FloatProducts::exact);
  const double read = read_rate(0), launch = launch_seconds();
  return {fmt::format("products of fp32 {:.3g} TFLOP/s, tf32 {:.3g}, bf16 {:.3g}", strict, rounded,
                      halves),
          fmt::format("reads {:.0f} GB/s; a captured launch takes {:.2g} us", read / 1e9,
                      launch * 1e6)};
} catch (const Error& error) {
  return {error.what()};
}

}  // namespace linea
