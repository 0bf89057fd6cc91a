#include "data/mnist.h"

#include <algorithm>
#include <string>
#include <system_error>
#include <utility>

#include "data/idx.h"
#include "tensor/error.h"

namespace linea {
namespace {

constexpr int64_t kPublishedSide = 28;
constexpr int64_t kValFraction = 12;  // one picture in twelve

// stem-idxR-ubyte or stem.idxR-ubyte, plain or .gz
std::filesystem::path find_idx(const std::filesystem::path& folder, const std::string& stem,
                               int rank) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(folder, ignored))
    fail(ErrorKind::input, "{}: is not a folder; name the one with the four MNIST files",
         folder.string());
  const std::string ending = fmt::format("idx{}-ubyte", rank);
  for (const char* separator : {"-", "."})
    for (const char* compression : {"", ".gz"}) {
      const std::filesystem::path path = folder / (stem + separator + ending + compression);
      if (std::filesystem::exists(path, ignored)) return path;
    }
  fail(ErrorKind::input, "{}: has no {}-{} or {}-{}.gz; put the four MNIST files there",
       folder.string(), stem, ending, stem, ending);
}

std::vector<uint8_t> halve(const std::vector<uint8_t>& pixels, int64_t count) {
  constexpr int64_t kHalf = kPublishedSide / 2;
  std::vector<uint8_t> halved(static_cast<size_t>(count * kHalf * kHalf));
  for (int64_t row = 0; row < count * kHalf; ++row)
    for (int64_t column = 0; column < kHalf; ++column) {
      const uint8_t* corner = pixels.data() + 2 * row * kPublishedSide + 2 * column;
      const int sum = corner[0] + corner[1] + corner[kPublishedSide] + corner[kPublishedSide + 1];
      halved[static_cast<size_t>(row * kHalf + column)] = static_cast<uint8_t>((sum + 2) / 4);
    }
  return halved;
}

PictureSet read_pictures(const std::filesystem::path& folder, const std::string& name,
                         int64_t side) {
  const std::filesystem::path image_path = find_idx(folder, name + "-images", 3);
  const std::filesystem::path label_path = find_idx(folder, name + "-labels", 1);
  IdxFile images = read_idx(image_path, 3);
  IdxFile labels = read_idx(label_path, 1);
  if (images.sizes[1] != kPublishedSide || images.sizes[2] != kPublishedSide)
    fail(ErrorKind::input, "{}: has pictures of {} x {} pixels, expected {} x {}",
         image_path.string(), images.sizes[1], images.sizes[2], kPublishedSide, kPublishedSide);
  if (images.sizes[0] != labels.sizes[0])
    fail(ErrorKind::input, "{} has {} pictures, but {} has {} labels; they must belong together",
         image_path.string(), images.sizes[0], label_path.string(), labels.sizes[0]);
  for (size_t i = 0; i < labels.bytes.size(); ++i)
    if (labels.bytes[i] >= kDigitClasses)
      fail(ErrorKind::input, "{}: label {} of picture {} is not one of 0 to {}",
           label_path.string(), labels.bytes[i], i, kDigitClasses - 1);
  PictureSet set{side, std::move(images.bytes), std::move(labels.bytes)};
  if (side != kPublishedSide) set.pixels = halve(set.pixels, set.count());
  return set;
}

// Moves the last `count` pictures into a set of their own.
PictureSet split_off(PictureSet& set, int64_t count) {
  const int64_t kept = set.count() - count;
  const auto pixel_cut = set.pixels.begin() + kept * set.side * set.side;
  const auto label_cut = set.labels.begin() + kept;
  PictureSet rest{set.side, {pixel_cut, set.pixels.end()}, {label_cut, set.labels.end()}};
  set.pixels.erase(pixel_cut, set.pixels.end());
  set.labels.erase(label_cut, set.labels.end());
  return rest;
}

}  // namespace

PictureSplits read_mnist(const std::filesystem::path& folder, int64_t side) {
  PictureSplits splits;
  splits.train = read_pictures(folder, "train", side);
  splits.test = read_pictures(folder, "t10k", side);
  if (splits.train.count() < 2)
    fail(ErrorKind::input, "{}: has {} training picture, training and val need one each",
         folder.string(), splits.train.count());
  splits.val = split_off(splits.train, std::max<int64_t>(1, splits.train.count() / kValFraction));
  return splits;
}

TaskShape mnist_shape(const TaskOptions& options) {
  const int64_t side = options.size == 0 ? kPublishedSide : options.size;
  require(side == kPublishedSide || 2 * side == kPublishedSide,
          "mnist pictures of size {}; choose {} or {}", side, kPublishedSide, kPublishedSide / 2);
  require(options.count == 0, "mnist has a fixed number of pictures; leave the count {} out",
          options.count);
  return picture_shape(options, side, 1, kDigitClasses);
}

std::unique_ptr<Task> make_mnist_task(const TaskOptions& options) {
  const TaskShape shape = mnist_shape(options);
  require(!options.data.empty(),
          "task mnist reads files; name the folder of the four MNIST files with --data");
  return make_picture_task(shape, read_mnist(options.data, shape.side));
}

}  // namespace linea
