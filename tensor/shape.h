// Shape: the sizes of a tensor's axes, outermost first. At most kMaxRank axes.
#pragma once

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

namespace linea {

inline constexpr int kMaxRank = 6;

class Shape {
 public:
  Shape() = default;  // a scalar
  Shape(std::initializer_list<int64_t> sizes) : Shape(std::vector<int64_t>(sizes)) {}
  // Errors: more than kMaxRank axes, a negative size, a product that overflows int64.
  explicit Shape(const std::vector<int64_t>& sizes);

  int rank() const { return rank_; }
  int64_t numel() const { return numel_; }
  // Axis i; negative counts from the end, as in shape[-1].
  int64_t operator[](int axis) const;
  bool operator==(const Shape& other) const = default;

  // The product of axes [first, last).
  int64_t product(int first, int last) const;
  // This shape with axis i (negative from the end) replaced.
  Shape with(int axis, int64_t size) const;
  std::vector<int64_t> sizes() const { return {size_.begin(), size_.begin() + rank_}; }
  std::string str() const;  // "[2,3,4]"

 private:
  int checked_axis(int axis) const;

  std::array<int64_t, kMaxRank> size_{};
  int rank_ = 0;
  int64_t numel_ = 1;
};

}  // namespace linea

// Formats a shape in a message; its text is built only where the message is.
template <>
struct fmt::formatter<linea::Shape> : fmt::formatter<std::string> {
  template <typename FormatContext>
  auto format(const linea::Shape& shape, FormatContext& context) const {
    return fmt::formatter<std::string>::format(shape.str(), context);
  }
};
