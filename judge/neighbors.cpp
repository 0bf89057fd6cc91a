#include "judge/neighbors.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "tensor/context.h"

namespace linea {
namespace {

constexpr int64_t kBlock = 16;       // images that a thread compares with each of the others
constexpr int64_t kExact = 1 << 14;  // differences of bytes whose squares sum to less than 2^31

int64_t squared_distance(const uint8_t* a, const uint8_t* b, int64_t count) {
  int64_t sum = 0;
  for (int64_t first = 0; first < count; first += kExact) {
    const int64_t end = std::min(count, first + kExact);
    int32_t part = 0;
    for (int64_t i = first; i < end; ++i) {
      const auto difference = static_cast<int16_t>(a[i] - b[i]);
      part += difference * difference;
    }
    sum += part;
  }
  return sum;
}

// The nearest neighbors of images [first, end).
void find_nearest(const ImageSet& images, const ImageSet& among, int64_t first, int64_t end,
                  std::vector<Neighbor>& nearest) {
  const int64_t bytes = images.image_bytes();
  std::vector<int64_t> best(static_cast<size_t>(std::max<int64_t>(0, end - first)), INT64_MAX);
  for (int64_t other = 0; other < among.count(); ++other)
    for (int64_t i = first; i < end; ++i) {
      const int64_t distance = squared_distance(images.pixels.data() + i * bytes,
                                                among.pixels.data() + other * bytes, bytes);
      int64_t& least = best[static_cast<size_t>(i - first)];
      if (distance >= least) continue;
      least = distance;
      nearest[static_cast<size_t>(i)] = {other, std::sqrt(static_cast<double>(distance)) / 255};
    }
}

}  // namespace

std::vector<Neighbor> nearest_images(const ImageSet& images, const ImageSet& among,
                                     const WorkProgress& progress) {
  require(images.image_bytes() == among.image_bytes() && among.count() >= 1,
          "no nearest image of {} among {} bytes, {} images", images.image_bytes(),
          among.image_bytes(), among.count());
  std::vector<Neighbor> nearest(static_cast<size_t>(images.count()));
  const int64_t threads = context().threads, all = images.count();
  for (int64_t first = 0; first < all; first += threads * kBlock) {
#pragma omp parallel for num_threads(context().threads)
    for (int64_t thread = 0; thread < threads; ++thread) {
      const int64_t own = first + thread * kBlock;
      find_nearest(images, among, own, std::min(all, own + kBlock), nearest);
    }
    if (progress) progress(std::min(all, first + threads * kBlock), all);
  }
  return nearest;
}

ImageSet mirrored(const ImageSet& images) {
  ImageSet result = images;
  const int64_t row_bytes = images.side * images.channels;
  for (int64_t row = 0; row < images.count() * images.side; ++row)
    for (int64_t x = 0; x < images.side; ++x)
      std::copy_n(images.pixels.data() + row * row_bytes + x * images.channels, images.channels,
                  result.pixels.data() + row * row_bytes + (images.side - 1 - x) * images.channels);
  return result;
}

}  // namespace linea
