#include "data/image_set.h"

#include <algorithm>

#include "base/error.h"

namespace linea {

ImageSet split_off(ImageSet& set, int64_t count) {
  require(count >= 0 && count <= set.count(), "{} of {} images", count, set.count());
  const int64_t remaining = set.count() - count;
  const auto pixel_cut = set.pixels.begin() + remaining * set.image_bytes();
  const auto label_cut = set.labels.begin() + remaining;
  ImageSet rest{
      set.side, set.channels, {pixel_cut, set.pixels.end()}, {label_cut, set.labels.end()}};
  set.pixels.erase(pixel_cut, set.pixels.end());
  set.labels.erase(label_cut, set.labels.end());
  return rest;
}

void split_off_val(ImageSplits& splits, int64_t parts, const std::string& name) {
  const int64_t count = splits.train.count();
  if (count < 2)
    fail(ErrorKind::input, "{}: has {} training image, training and val need one each", name,
         count);
  splits.val = split_off(splits.train, std::max<int64_t>(1, count / parts));
}

void append(ImageSet& set, const ImageSet& more) {
  require(set.side == more.side && set.channels == more.channels,
          "images of {} x {} x {} appended to images of {} x {} x {}", more.side, more.side,
          more.channels, set.side, set.side, set.channels);
  set.pixels.insert(set.pixels.end(), more.pixels.begin(), more.pixels.end());
  set.labels.insert(set.labels.end(), more.labels.begin(), more.labels.end());
}

ImageSet shrink(const ImageSet& set, int64_t side) {
  require(side >= 1 && set.side % side == 0,
          "images of side {} do not shrink to {} by an integer factor", set.side, side);
  const int64_t factor = set.side / side, channels = set.channels, area = factor * factor;
  ImageSet small{side, channels, {}, set.labels};
  small.pixels.reserve(static_cast<size_t>(set.count() * small.image_bytes()));
  for (int64_t row = 0; row < set.count() * side; ++row)
    for (int64_t column = 0; column < side; ++column)
      for (int64_t channel = 0; channel < channels; ++channel) {
        const uint8_t* corner =
            set.pixels.data() + factor * (row * set.side + column) * channels + channel;
        int64_t sum = 0;
        for (int64_t y = 0; y < factor; ++y)
          for (int64_t x = 0; x < factor; ++x) sum += corner[(y * set.side + x) * channels];
        small.pixels.push_back(static_cast<uint8_t>((sum + area / 2) / area));
      }
  return small;
}

}  // namespace linea
