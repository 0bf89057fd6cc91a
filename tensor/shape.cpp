#include "tensor/shape.h"

#include "base/error.h"

namespace linea {

Shape::Shape(const std::vector<int64_t>& sizes) : rank_(static_cast<int>(sizes.size())) {
  require(sizes.size() <= kMaxRank, "a shape has {} axes; at most {} are supported", sizes.size(),
          kMaxRank);
  for (int axis = 0; axis < rank_; ++axis) {
    const int64_t size = sizes[static_cast<size_t>(axis)];
    require(size >= 0, "axis {} of a shape has the negative size {}", axis, size);
    size_[static_cast<size_t>(axis)] = size;
    require(!__builtin_mul_overflow(numel_, size, &numel_),
            "a shape's product overflows at axis {}", axis);
  }
}

int Shape::checked_axis(int axis) const {
  const int wrapped = axis < 0 ? axis + rank_ : axis;
  require(wrapped >= 0 && wrapped < rank_, "axis {} does not exist in shape {}", axis, *this);
  return wrapped;
}

int64_t Shape::operator[](int axis) const { return size_[static_cast<size_t>(checked_axis(axis))]; }

int64_t Shape::product(int first, int last) const {
  int64_t result = 1;
  for (int axis = first; axis < last; ++axis) result *= (*this)[axis];
  return result;
}

Shape Shape::with(int axis, int64_t size) const {
  std::vector<int64_t> result = sizes();
  result[static_cast<size_t>(checked_axis(axis))] = size;
  return Shape(result);
}

std::string Shape::str() const { return fmt::format("[{}]", fmt::join(sizes(), ",")); }

}  // namespace linea
