// A value of a variable for as long as an object lives.
#pragma once

#include <utility>

namespace linea {

// Sets a variable of this thread, and restores it at the end of its life.
template <typename T>
class Scoped {
 public:
  Scoped(T& variable, T value) : variable_(variable), before_(std::exchange(variable, value)) {}
  ~Scoped() { variable_ = before_; }
  Scoped(const Scoped&) = delete;
  Scoped& operator=(const Scoped&) = delete;

 private:
  T& variable_;
  T before_;
};

}  // namespace linea
