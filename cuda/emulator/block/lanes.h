// The lanes of a mask, and what each of them brought to an operation of its warp.
#pragma once

#include <bit>

namespace linea::emulator {

// for (const int lane : LanesOf(mask))
class LanesOf {
 public:
  explicit LanesOf(unsigned mask) : mask_(mask) {}
  LanesOf begin() const { return *this; }
  LanesOf end() const { return LanesOf(0); }
  int operator*() const { return std::countr_zero(mask_); }
  void operator++() { mask_ &= mask_ - 1; }
  bool operator!=(const LanesOf& other) const { return mask_ != other.mask_; }

 private:
  unsigned mask_;
};

template <typename T>
T& of(void* argument) {
  return *static_cast<T*>(argument);
}

}  // namespace linea::emulator
