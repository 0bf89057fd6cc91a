#include "data/readers/cifar10.h"

#include <algorithm>
#include <map>
#include <string>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "data/files.h"
#include "data/one_line.h"
#include "data/readers/tar.h"

namespace linea {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kPlane = kCifar10Side * kCifar10Side, kRecord = 1 + kCifar10Channels * kPlane;
constexpr int64_t kMaxBatchBytes = int64_t{1} << 28;
constexpr int64_t kTrainBatches = 5;
constexpr const char* kFolder = "cifar-10-batches-bin";
constexpr const char* kTestBatch = "test_batch.bin";

std::string train_batch_name(int64_t number) { return fmt::format("data_batch_{}.bin", number); }

bool is_batch(const std::string& name) {
  if (name == kTestBatch) return true;
  for (int64_t number = 1; number <= kTrainBatches; ++number)
    if (name == train_batch_name(number)) return true;
  return false;
}

// `source` names the file in errors.
ImageSet parse_batch(const std::string& bytes, const std::string& source, int64_t side,
                     int64_t channels) {
  const auto size = static_cast<int64_t>(bytes.size());
  if (size == 0 || size % kRecord != 0)
    fail(ErrorKind::input,
         "{}: has {} bytes, no multiple of the {} of a CIFAR-10 record; download it again", source,
         size, kRecord);
  const int64_t count = size / kRecord;
  ImageSet set{kCifar10Side, channels, {}, {}};
  set.pixels.reserve(static_cast<size_t>(count * set.image_bytes()));
  for (int64_t i = 0; i < count; ++i) {
    const auto* record = reinterpret_cast<const uint8_t*>(bytes.data()) + i * kRecord;
    if (record[0] >= kCifar10Classes)
      fail(ErrorKind::input, "{}: label {} of record {} is not one of 0 to {}", source, record[0],
           i, kCifar10Classes - 1);
    set.labels.push_back(record[0]);
    const uint8_t *red = record + 1, *green = red + kPlane, *blue = green + kPlane;
    for (int64_t pixel = 0; pixel < kPlane; ++pixel) {
      if (channels == 1)
        set.pixels.push_back(luma(red[pixel], green[pixel], blue[pixel]));
      else
        set.pixels.insert(set.pixels.end(), {red[pixel], green[pixel], blue[pixel]});
    }
  }
  return side == kCifar10Side ? set : shrink(set, side);
}

using Batches = std::map<std::string, ImageSet>;  // by the file's name

Batches read_archive(const fs::path& path, int64_t side, int64_t channels) {
  Batches batches;
  TarReader archive(path);
  while (archive.next()) {
    const std::string name = fs::path(archive.entry_name()).filename().string();
    if (!is_batch(name)) continue;
    const std::string source = path.string() + ": " + one_line(archive.entry_name());
    if (batches.count(name) != 0)
      fail(ErrorKind::input, "{}: is in the archive twice; download it again", source);
    batches[name] = parse_batch(archive.read_entry(kMaxBatchBytes), source, side, channels);
  }
  return batches;
}

Batches read_folder(const fs::path& folder, int64_t side, int64_t channels) {
  Batches batches;
  for (int64_t number = 0; number <= kTrainBatches; ++number) {
    const std::string name = number == 0 ? kTestBatch : train_batch_name(number);
    const fs::path path = find_wrapped_file(folder / name);
    if (!path.empty())
      batches[name] = parse_batch(read_file(path, kMaxBatchBytes), path.string(), side, channels);
  }
  return batches;
}

Batches read_batches(const fs::path& path, int64_t side, int64_t channels) {
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) return read_archive(path, side, channels);
  for (const fs::path& folder : {path, path / kFolder, path / kFolder / kFolder})
    if (!find_wrapped_file(folder / kTestBatch).empty() ||
        !find_wrapped_file(folder / train_batch_name(1)).empty())
      return read_folder(folder, side, channels);
  if (const fs::path archive = find_wrapped_file(path / kCifar10Archive); !archive.empty())
    return read_archive(archive, side, channels);
  fail(ErrorKind::input,
       "{}: has no {}, no {} and no {}; name the folder of CIFAR-10's binary batches, or the "
       "archive",
       path.string(), train_batch_name(1), kFolder, kCifar10Archive);
}

}  // namespace

ImageSplits read_cifar10(const fs::path& path, int64_t side, int64_t channels) {
  Batches batches = read_batches(path, side, channels);
  ImageSplits splits;
  splits.train = ImageSet{side, channels, {}, {}};
  int64_t last = 0;
  for (int64_t number = 1; number <= kTrainBatches; ++number)
    if (batches.count(train_batch_name(number)) != 0) last = number;
  for (int64_t number = 1; number <= std::max<int64_t>(last, 1); ++number) {
    const auto batch = batches.find(train_batch_name(number));
    if (batch == batches.end())
      fail(ErrorKind::input, "{}: has no {}; put CIFAR-10's binary batches there", path.string(),
           train_batch_name(number));
    append(splits.train, batch->second);
    batches.erase(batch);
  }
  const auto test = batches.find(kTestBatch);
  if (test == batches.end())
    fail(ErrorKind::input, "{}: has no {}; put CIFAR-10's binary batches there", path.string(),
         kTestBatch);
  splits.test = std::move(test->second);
  split_off_val(splits, 10, path.string());
  return splits;
}

}  // namespace linea
