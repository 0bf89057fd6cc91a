// The running block's dynamic shared memory, cut into pieces with red zones between them.
#pragma once

#include <cstddef>
#include <source_location>
#include <vector>

namespace linea::emulator {

class SharedMemory {
 public:
  void begin(size_t bytes);  // of each block of a launch
  // Piece `number`, which the first thread that asks for it makes, full of NaN.
  void* take(size_t number, size_t bytes, std::source_location place);
  void end_block();

 private:
  struct Piece {
    unsigned char* data;
    size_t bytes;
    std::source_location place;
  };
  unsigned char* zone_end(const Piece& piece) const;
  void check_zone(const unsigned char* begin, const unsigned char* end, const Piece& piece,
                  const char* side) const;

  size_t bytes_ = 0, taken_ = 0;
  std::vector<unsigned char> memory_;
  unsigned char* next_ = nullptr;  // where the next piece may lie, past a red zone
  std::vector<Piece> pieces_;
};

}  // namespace linea::emulator
