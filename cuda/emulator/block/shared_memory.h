// The running block's dynamic shared memory: arrays with red zones between them.
#pragma once

#include <cstddef>
#include <source_location>
#include <vector>

namespace linea::emulator {

class SharedMemory {
 public:
  // `bytes`: the dynamic shared memory of each block of the launch.
  void begin(size_t bytes);
  // Returns array `number`. The first thread's call allocates it, filled with NaN.
  void* take(size_t number, size_t bytes, std::source_location location);
  void end_block();
  bool contains(const void* address) const {
    return address >= memory_.data() && address < memory_.data() + memory_.size();
  }

 private:
  struct Array {
    unsigned char* data;
    size_t bytes;
    std::source_location location;
  };
  unsigned char* red_zone_end(const Array& array) const;
  void check_red_zone(const unsigned char* begin, const unsigned char* end, const Array& array,
                      const char* side) const;

  size_t bytes_ = 0, taken_ = 0;
  std::vector<unsigned char> memory_;
  unsigned char* next_ = nullptr;  // start of the first array's red zone
  std::vector<Array> arrays_;
};

}  // namespace linea::emulator
