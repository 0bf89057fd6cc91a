#include "tensor/tensor.h"

#include "tensor/backend.h"
#include "tensor/context.h"

namespace linea {

Tensor::Tensor(const Shape& shape, DType dtype)
    : device_(context().device), shape_(shape), dtype_(dtype) {
  int64_t bytes = 0;
  require(!__builtin_mul_overflow(shape.numel(), static_cast<int64_t>(size_of(dtype)), &bytes),
          "a tensor of shape {} has too many bytes", shape);
  Allocator& allocator = device_memory(device_).allocator;
  const size_t size = static_cast<size_t>(bytes);
  storage_ = std::shared_ptr<void>(allocator.allocate(size), [&allocator, size](void* block) {
    allocator.release(block, size);
  });
}

Tensor Tensor::zeros(const Shape& shape, DType dtype) {
  Tensor result(shape, dtype);
  device_memory(result.device()).clear(context(), result.address(), result.bytes());
  return result;
}

Tensor Tensor::full(const Shape& shape, DType dtype, double value) {
  Tensor result(shape, dtype);
  with_stored(dtype, "full", [&](auto zero) {
    using T = decltype(zero);
    kernels<T>(context().device).fill(context(), result.data<T>(), value, result.numel());
  });
  return result;
}

Tensor Tensor::from(const std::vector<double>& values, const Shape& shape, DType dtype) {
  if (dtype == DType::f64) return from(values, shape);
  return from(std::vector<float>(values.begin(), values.end()), shape);
}

Device Tensor::device() const {
  require(defined(), "an undefined tensor has no device");
  return device_;
}

void* Tensor::address() const {
  require(defined(), "an undefined tensor has no elements");
  return static_cast<char*>(storage_.get()) + offset_;
}

Tensor Tensor::reshape(const Shape& shape) const {
  require(shape.numel() == numel(), "cannot reshape {} ({} elements) to {} ({})", shape_, numel(),
          shape, shape.numel());
  Tensor result = *this;
  result.shape_ = shape;
  return result;
}

Tensor Tensor::rows(int64_t first, int64_t count) const {
  require(shape_.rank() >= 1 && first >= 0 && count >= 0 && first + count <= shape_[0],
          "rows {}..{} do not exist in shape {}", first, first + count, shape_);
  const int64_t row = shape_.product(1, shape_.rank());
  Tensor result = *this;
  result.shape_ = shape_.with(0, count);
  result.offset_ += static_cast<size_t>(first * row) * size_of(dtype_);
  return result;
}

Tensor Tensor::select(int64_t index) const {
  const Tensor one = rows(index, 1);
  std::vector<int64_t> sizes = shape_.sizes();
  sizes.erase(sizes.begin());
  return one.reshape(Shape(sizes));
}

Tensor Tensor::clone() const {
  Tensor result(shape_, dtype_);
  device_memory(device()).copy(context(), result.address(), address(), bytes());
  return result;
}

std::vector<double> Tensor::to_doubles() const {
  std::vector<double> result;
  with_stored(dtype_, "to_doubles", [&](auto zero) {
    const auto values = to_vector<decltype(zero)>();
    result.assign(values.begin(), values.end());
  });
  return result;
}

double Tensor::item() const {
  require(numel() == 1, "item() needs a tensor of one element, not shape {}", shape_);
  return to_doubles()[0];
}

void Tensor::read(void* host) const {
  device_memory(device()).read(context(), host, address(), bytes());
}

void Tensor::write(const void* host) const {
  device_memory(device()).write(context(), address(), host, bytes());
}

void Tensor::check_dtype(DType asked) const {
  require(dtype_ == asked, "a tensor of {} was used as {}", name_of(dtype_), name_of(asked));
}

}  // namespace linea
