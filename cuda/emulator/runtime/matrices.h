// Column-major matrices as passed to cuBLAS, and the checks of a product's memory accesses.
#pragma once

#include <cblas.h>
#include <cublas_v2.h>
#include <cuda_bf16.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "cuda/emulator/checker.h"
#include "cuda/emulator/runtime/arena.h"

namespace linea::emulator {

// A batch of rows x columns matrices: `leading` elements between columns, `stride` between
// matrices.
struct Matrix {
  const void* data;
  cudaDataType type;
  int rows, columns, leading;
  int64_t stride;

  bool fits() const { return leading >= std::max(rows, 1); }
  size_t element() const { return type == CUDA_R_64F ? 8 : type == CUDA_R_32F ? 4 : 2; }
  const void* at(int index) const {
    return static_cast<const char*>(data) + index * stride * static_cast<int64_t>(element());
  }
  // Elements from the first to the last, inclusive.
  size_t span() const {
    if (rows == 0 || columns == 0) return 0;
    return static_cast<size_t>(leading) * static_cast<size_t>(columns - 1) +
           static_cast<size_t>(rows);
  }
};

// Calls visit(column, bytes) for each column; the gaps between columns may hold anything.
template <typename Visit>
void each_column(const Matrix& matrix, const void* data, const Visit& visit) {
  const size_t column_bytes = static_cast<size_t>(matrix.rows) * matrix.element();
  for (int column = 0; column < matrix.columns; ++column)
    visit(static_cast<const char*>(data) +
              static_cast<size_t>(column) * static_cast<size_t>(matrix.leading) * matrix.element(),
          column_bytes);
}

inline void check_read(const Matrix& matrix, const void* data) {
  arena().check_range(data, matrix.span() * matrix.element(), "a cuBLAS matrix product reads");
  if (checker != nullptr)
    each_column(matrix, data,
                [](const void* column, size_t bytes) { checker->on_device_read(column, bytes); });
}

inline void report_write(const Matrix& matrix, const void* data) {
  if (checker != nullptr)
    each_column(matrix, data,
                [](const void* column, size_t bytes) { checker->on_device_write(column, bytes); });
}

// The elements as floats: the data itself, or converted into `storage`.
inline const float* as_floats(const Matrix& matrix, const void* data, std::vector<float>& storage) {
  if (matrix.type == CUDA_R_32F) return static_cast<const float*>(data);
  const auto* from = static_cast<const __nv_bfloat16*>(data);
  storage.resize(matrix.span());
  for (size_t i = 0; i < storage.size(); ++i) storage[i] = __bfloat162float(from[i]);
  return storage.data();
}

inline CBLAS_TRANSPOSE blas(cublasOperation_t transpose) {
  return transpose == CUBLAS_OP_N ? CblasNoTrans : CblasTrans;
}

}  // namespace linea::emulator
