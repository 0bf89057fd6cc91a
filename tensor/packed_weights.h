// Weights that several products take, one block of rows after another: a CPU's thread packs each once.
#pragma once

#include <omp.h>

#include <cstdint>
#include <list>
#include <optional>
#include <vector>

#include "tensor/context.h"
#include "tensor/kernel_shapes.h"
#include "tensor/tensor.h"
#include "tensor/workspace.h"

namespace linea {

namespace cpu {
struct PackedKernel;
}

// While it lives, this thread's products that take one of these weights as their second factor share
// its packed form (tensor/cpu/packed/gemm.h), and those of each thread of on_threads one of its own.
// The weights must not change meanwhile.
class PackedWeights {
 public:
  // A weight as the first product packs it: op(B) [inner,cols] by a kernel.
  struct Form {
    Form(const void* of, int by) : weight(of), thread(by) {}
    const void* weight;
    int thread;
    const cpu::PackedKernel* kernel = nullptr;
    bool transposed = false;
    int64_t inner = 0, cols = 0;
    std::optional<Workspace<uint32_t>> words;  // written by the first product
  };

  explicit PackedWeights(const std::vector<Tensor>& weights)
      : ctx_(context()), outer_(ctx_.packed_weights) {
    for (int thread = 0; thread < ctx_.threads; ++thread)
      for (const Tensor& weight : weights) forms_.emplace_back(weight.address(), thread);
    ctx_.packed_weights = this;
  }
  ~PackedWeights() { ctx_.packed_weights = outer_; }
  PackedWeights(const PackedWeights&) = delete;
  PackedWeights& operator=(const PackedWeights&) = delete;

  // null: another matrix, or another form of a weight.
  Form* find(const void* weight, const cpu::PackedKernel& kernel, const GemmShape& product) {
    const int thread = omp_get_thread_num();
    for (Form& form : forms_) {
      if (form.weight != weight || form.thread != thread) continue;
      if (form.kernel == nullptr) {
        form.kernel = &kernel;
        form.transposed = product.transpose_b;
        form.inner = product.inner;
        form.cols = product.cols;
      }
      const bool same = form.kernel == &kernel && form.transposed == product.transpose_b &&
                        form.inner == product.inner && form.cols == product.cols;
      return same ? &form : nullptr;
    }
    return nullptr;
  }

 private:
  Context& ctx_;
  PackedWeights* outer_;
  std::list<Form> forms_;
};

}  // namespace linea
