// Blank positions of images. A token is blank where its neighborhood is background, level 0: the two
// pixels before it, five pixels in each of the two rows above, and the channels of its own pixel
// before it. Which positions are blank follows from the tokens before each, so a model may treat them
// apart and still gives every token a probability: its blocks compute the other positions alone, in
// sequences as long as the image with the most of them, and a small layer the blank ones.
#pragma once

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "autograd/ops.h"
#include "tensor/tensor.h"

namespace linea {

struct ModelConfig;

// Which positions of an image are not blank. Neighborhoods go by the distance in the sequence: beyond
// a border they have pixels of the other side, and in images of colors some channels of one more.
class Neighborhood {
 public:
  explicit Neighborhood(const ModelConfig& config);
  // Token `index` has this level: positions [length] that have it in their neighborhood are not blank
  // unless it is background.
  void add(int64_t index, int32_t level, std::vector<bool>& computed) const;
  // No token yet: position 0, which reads the class, is computed, the others are blank.
  std::vector<bool> empty() const;

 private:
  int64_t length_, levels_;
  std::array<std::pair<int64_t, int64_t>, 3> distances_;  // from first to last, of three rows
};

// The positions of a batch of images i32 [B,N], as indices i32 into rows.
struct PackedPositions {
  PackedPositions(const Tensor& ids, const ModelConfig& config);

  Tensor
      computed;  // [B,M]: the rows of the blocks, as rows of B N positions; padding repeats position 0
  Tensor lengths;  // [B]: how many of them exist
  Tensor blank;    // [K]: the others, at least one, which may be unused
  Tensor before;   // [K]: the row of B M before each
  Tensor order;    // [B,N]: the row of each position, of B M + K
  ConvolutionRows convolution;
};

}  // namespace linea
