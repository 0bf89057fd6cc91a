#include "data/readers/mnist.h"

#include <string>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "data/files.h"
#include "data/readers/idx.h"

namespace linea {
namespace {

// stem-idxR-ubyte or stem.idxR-ubyte, plain or .gz, or in a folder of that name
std::filesystem::path find_idx(const std::filesystem::path& folder, const std::string& stem,
                               int rank) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(folder, ignored))
    fail(ErrorKind::input, "{}: is not a folder; name the one with the four MNIST files",
         folder.string());
  const std::string ending = fmt::format("idx{}-ubyte", rank);
  for (const char* separator : {"-", "."})
    for (const char* compression : {"", ".gz"}) {
      const std::filesystem::path path =
          find_wrapped_file(folder / (stem + separator + ending + compression));
      if (!path.empty()) return path;
    }
  fail(ErrorKind::input, "{}: has no {}-{} or {}-{}.gz; put the four MNIST files there",
       folder.string(), stem, ending, stem, ending);
}

ImageSet read_images(const std::filesystem::path& folder, const std::string& name, int64_t side) {
  const std::filesystem::path image_path = find_idx(folder, name + "-images", 3);
  const std::filesystem::path label_path = find_idx(folder, name + "-labels", 1);
  IdxFile images = read_idx(image_path, 3);
  IdxFile labels = read_idx(label_path, 1);
  if (images.sizes[1] != kMnistSide || images.sizes[2] != kMnistSide)
    fail(ErrorKind::input, "{}: has images of {} x {} pixels, expected {} x {}",
         image_path.string(), images.sizes[1], images.sizes[2], kMnistSide, kMnistSide);
  if (images.sizes[0] != labels.sizes[0])
    fail(ErrorKind::input, "{} has {} images, but {} has {} labels; they must belong together",
         image_path.string(), images.sizes[0], label_path.string(), labels.sizes[0]);
  for (size_t i = 0; i < labels.bytes.size(); ++i)
    if (labels.bytes[i] >= kMnistClasses)
      fail(ErrorKind::input, "{}: label {} of image {} is not one of 0 to {}", label_path.string(),
           labels.bytes[i], i, kMnistClasses - 1);
  ImageSet set{kMnistSide, 1, std::move(images.bytes), std::move(labels.bytes)};
  return side == kMnistSide ? set : shrink(set, side);
}

}  // namespace

ImageSplits read_mnist(const std::filesystem::path& folder, int64_t side) {
  ImageSplits splits;
  splits.train = read_images(folder, "train", side);
  splits.test = read_images(folder, "t10k", side);
  split_off_val(splits, 12, folder.string());
  return splits;
}

}  // namespace linea
