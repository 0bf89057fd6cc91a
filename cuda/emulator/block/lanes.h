// Iteration over the lanes of a mask, and access to their arguments of a warp operation.
#pragma once

#include <bit>

namespace linea::emulator {

// for (const int lane : Lanes(mask))
class Lanes {
 public:
  explicit Lanes(unsigned mask) : mask_(mask) {}
  Lanes begin() const { return *this; }
  Lanes end() const { return Lanes(0); }
  int operator*() const { return std::countr_zero(mask_); }
  void operator++() { mask_ &= mask_ - 1; }
  bool operator!=(const Lanes& other) const { return mask_ != other.mask_; }

 private:
  unsigned mask_;
};

template <typename T>
T& as(void* argument) {
  return *static_cast<T*>(argument);
}

}  // namespace linea::emulator
