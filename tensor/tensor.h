// Tensor: values without gradients, always contiguous and row-major. Copies share the storage. A
// tensor may be a contiguous range of a larger storage (reshape, rows).
#pragma once

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "tensor/dtype.h"
#include "tensor/memory.h"
#include "tensor/shape.h"

namespace linea {

class Tensor {
 public:
  Tensor() = default;  // undefined: defined() is false
  // Uninitialized memory on the current device. Error: ErrorKind::memory.
  Tensor(const Shape& shape, DType dtype);
  static Tensor zeros(const Shape& shape, DType dtype);
  static Tensor full(const Shape& shape, DType dtype, double value);
  template <typename T>
  static Tensor from(const std::vector<T>& values, const Shape& shape) {
    require(static_cast<int64_t>(values.size()) == shape.numel(), "{} values for shape {}",
            values.size(), shape);
    Tensor result(shape, dtype_of(T{}));
    if (!values.empty()) result.write(values.data());
    return result;
  }
  // From values rounded to dtype, f32 or f64.
  static Tensor from(const std::vector<double>& values, const Shape& shape, DType dtype);

  bool defined() const { return storage_ != nullptr; }
  const Shape& shape() const { return shape_; }
  int64_t size(int axis) const { return shape_[axis]; }
  int64_t numel() const { return shape_.numel(); }
  DType dtype() const { return dtype_; }
  Device device() const;
  size_t bytes() const { return static_cast<size_t>(numel()) * size_of(dtype_); }

  // The elements, on the tensor's device. Error: T is not the dtype.
  template <typename T>
  T* data() const {
    check_dtype(dtype_of(T{}));
    return static_cast<T*>(address());
  }
  // data(), or null where the tensor is undefined.
  template <typename T>
  T* data_or_null() const {
    return defined() ? data<T>() : nullptr;
  }
  void* address() const;

  // A view of the storage with another shape. Error: a different number of elements.
  Tensor reshape(const Shape& shape) const;
  // Rows [first, first + count) of the outermost axis, sharing the storage.
  Tensor rows(int64_t first, int64_t count) const;
  // Slice `index` of the outermost axis, without that axis, sharing the storage.
  Tensor select(int64_t index) const;
  Tensor clone() const;

  // Copies to the host; for tests, files and results.
  template <typename T>
  std::vector<T> to_vector() const {
    check_dtype(dtype_of(T{}));
    std::vector<T> values(static_cast<size_t>(numel()));
    if (!values.empty()) read(values.data());
    return values;
  }
  // f32, f64 and bf16 as double.
  std::vector<double> to_doubles() const;
  // The element of a tensor of one. Error: more elements.
  double item() const;
  void read(void* host) const;         // bytes() bytes to host memory
  void write(const void* host) const;  // bytes() bytes from host memory

  // True where no other tensor shares the storage: in-place changes are safe.
  bool unique() const { return storage_ != nullptr && storage_.use_count() == 1; }

 private:
  void check_dtype(DType asked) const;

  std::shared_ptr<void> storage_;  // a block of device memory
  Device device_;
  size_t offset_ = 0;  // bytes into the storage
  Shape shape_;
  DType dtype_ = DType::f32;
};

struct NamedTensor {
  std::string name;
  Tensor tensor;
};

}  // namespace linea
