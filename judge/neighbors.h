// The nearest images of a set, by the Euclidean distance of pixels in [0, 1].
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "data/image_set.h"

namespace linea {

// Called with the work done so far and its total.
using WorkProgress = std::function<void(int64_t done, int64_t all)>;

struct Neighbor {
  int64_t index = 0;  // of equally near images the first
  double distance = 0;
};

// For each of `images` the nearest of `among`, by comparison with all of them in integers: exact.
std::vector<Neighbor> nearest_images(const ImageSet& images, const ImageSet& among,
                                     const WorkProgress& progress = {});

// Left to right.
ImageSet mirrored(const ImageSet& images);

}  // namespace linea
