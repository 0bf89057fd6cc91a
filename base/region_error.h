// Exceptions of the threads of an OpenMP region.
#pragma once

#include <atomic>
#include <exception>

namespace linea::cpu {

// The first exception of a region, which must not leave it in one of its threads, for its caller.
class RegionError {
 public:
  template <typename Body>
  void run(const Body& body) {
    try {
      body();
    } catch (...) {
      if (!taken_.test_and_set()) first_ = std::current_exception();
    }
  }
  void rethrow() const {
    if (first_) std::rethrow_exception(first_);
  }

 private:
  std::atomic_flag taken_ = ATOMIC_FLAG_INIT;
  std::exception_ptr first_;
};

}  // namespace linea::cpu
