// Products of floats by Linea's packed kernel and by OpenBLAS, on one thread: the table behind the
// rule in tensor/cpu/gemm.cpp, which of the two computes a shape. Prints Markdown.
//
//   g++ -std=c++20 -O3 -march=native -mprefer-vector-width=512 -fopenmp -I. -o products \
//     bench/peers/products.cpp tensor/cpu/float_gemm.cpp tensor/cpu/small_gemm.cpp \
//     build/release/liblinea_tensor.a -L/usr/lib/x86_64-linux-gnu/openblas-openmp -lopenblas -lfmt
//   OMP_NUM_THREADS=1 ./products
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

#include "tensor/context.h"
#include "tensor/cpu/blas.h"
#include "tensor/cpu/packed/gemm.h"
#include "tensor/kernel_shapes.h"

namespace {

using namespace linea;

template <typename Product>
double median_gflops(double flops, const Product& product) {
  using Clock = std::chrono::steady_clock;
  constexpr double kSeconds = 0.05;  // of a measurement
  constexpr int kRounds = 7;
  const auto seconds_of = [&](int64_t calls) {
    const auto start = Clock::now();
    for (int64_t i = 0; i < calls; ++i) product();
    return std::chrono::duration<double>(Clock::now() - start).count();
  };
  seconds_of(2);
  const int64_t calls = std::max<int64_t>(1, static_cast<int64_t>(kSeconds / seconds_of(1)));
  std::vector<double> rates;
  for (int round = 0; round < kRounds; ++round)
    rates.push_back(flops * static_cast<double>(calls) / seconds_of(calls) / 1e9);
  std::nth_element(rates.begin(), rates.begin() + kRounds / 2, rates.end());
  return rates[kRounds / 2];
}

void compare(int64_t rows, int64_t inner, int64_t cols) {
  std::printf("| %lld x %lld x %lld |", static_cast<long long>(rows), static_cast<long long>(inner),
              static_cast<long long>(cols));
  const double flops = 2.0 * static_cast<double>(rows * inner * cols);
  const std::vector<float> a(static_cast<size_t>(rows * inner), 0.5F),
      b(static_cast<size_t>(inner * cols), 0.25F);
  std::vector<float> c(static_cast<size_t>(rows * cols));
  for (const auto& turned : {std::pair(false, true), {false, false}, {true, false}}) {
    const bool turned_a = turned.first, turned_b = turned.second;
    const GemmShape shape{turned_a, turned_b, rows, cols, inner};
    const double own = median_gflops(flops, [&] {
      cpu::packed_gemm(context(), *cpu::float_kernel(), shape, a.data(), b.data(), c.data());
    });
    const double blas = median_gflops(flops, [&] {
      cpu::blas_gemm(turned_a, turned_b, rows, cols, inner, 1.0F, a.data(), turned_a ? rows : inner,
                     b.data(), turned_b ? inner : cols, 0.0F, c.data(), cols);
    });
    std::printf(" %.0f | %.0f | %.2f |", own, blas, own / blas);
  }
  std::printf("\n");
  std::fflush(stdout);
}

}  // namespace

int main() {
  set_threads(1);
  std::printf(
      "| rows x inner x columns | x Wt own | BLAS | ratio | dY W own | BLAS | ratio |"
      " dYt X own | BLAS | ratio |\n|---|---|---|---|---|---|---|---|---|---|\n");
  for (const int64_t rows : {1, 2, 4, 8, 16, 32, 64})
    for (const int64_t size : {32, 64, 128, 256}) compare(rows, size, size);
  constexpr int64_t kLayers[][3] = {{768, 128, 384},  {768, 128, 512},   {768, 512, 128},
                                    {3136, 96, 288},  {3136, 96, 384},   {3136, 384, 96},
                                    {1536, 192, 576}, {1536, 192, 768},  {1536, 768, 192},
                                    {7840, 256, 768}, {7840, 1024, 256}, {2048, 2048, 2048}};
  for (const auto& [rows, inner, cols] : kLayers) compare(rows, inner, cols);
}
