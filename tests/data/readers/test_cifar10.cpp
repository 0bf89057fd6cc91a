#include "data/readers/cifar10.h"

#include <map>

#include "data/tasks/task.h"
#include "tests/data/data_helpers.h"
#include "tests/data/readers/idx_bytes.h"
#include "tests/data/readers/tar_bytes.h"

namespace linea {
namespace {

// Pixel p of image i: red i, green p / 4, blue p % 256; the label is i % 10.
std::string batch_bytes(int first, int count) {
  std::string bytes;
  for (int i = first; i < first + count; ++i) {
    bytes += static_cast<char>(i % 10);
    bytes += std::string(1024, static_cast<char>(i));
    for (int p = 0; p < 1024; ++p) bytes += static_cast<char>(p / 4);
    for (int p = 0; p < 1024; ++p) bytes += static_cast<char>(p % 256);
  }
  return bytes;
}

class Cifar10Test : public DataTest {
 protected:
  void SetUp() override {
    put("data_batch_1.bin", batch_bytes(0, 12));
    put("data_batch_2.bin", batch_bytes(12, 11));
    put("test_batch.bin", batch_bytes(100, 4));
  }

  ImageSplits read(const std::string& name) const { return read_cifar10(path(name), 32, 3); }
  static TaskOptions options(const std::string& data) {
    TaskOptions chosen;
    chosen.name = "cifar10";
    chosen.settings["data"] = data;
    return chosen;
  }
};

TEST_F(Cifar10Test, InterleavesColors) {
  const ImageSplits splits = read("");
  EXPECT_EQ(splits.train.count(), 21);
  EXPECT_EQ(splits.val.count(), 2);
  EXPECT_EQ(splits.test.count(), 4);
  EXPECT_EQ(splits.train.labels[13], 3);
  EXPECT_EQ(splits.val.labels, (std::vector<uint8_t>{1, 2}));
  const uint8_t* image = splits.train.pixels.data() + 13 * 3072;
  for (int p = 0; p < 1024; ++p) {
    EXPECT_EQ(image[3 * p], 13) << p;
    EXPECT_EQ(image[3 * p + 1], p / 4) << p;
    EXPECT_EQ(image[3 * p + 2], p % 256) << p;
  }
  EXPECT_EQ(splits.val.pixels[0], 21);
  EXPECT_EQ(splits.test.pixels.back(), 255);
}

TEST_F(Cifar10Test, ReadsTheArchiveInAnyOrder) {
  const std::string folder = "cifar-10-batches-bin/";
  const std::string archive = tar_entry(folder, "", '5', 0) +
                              tar_file(folder + "data_batch_2.bin", batch_bytes(12, 11)) +
                              tar_file(folder + "batches.meta.txt", "airplane\n") +
                              tar_file(folder + "test_batch.bin", batch_bytes(100, 4)) +
                              tar_file(folder + "data_batch_1.bin", batch_bytes(0, 12));
  std::filesystem::create_directories(path("below"));
  put("below/cifar-10-binary.tar.gz", gzip(archive + kTarEnd));
  const ImageSplits expected = read("");
  for (const char* name : {"below", "below/cifar-10-binary.tar.gz"}) {
    const ImageSplits splits = read(name);
    EXPECT_EQ(splits.train.pixels, expected.train.pixels);
    EXPECT_EQ(splits.val.pixels, expected.val.pixels);
    EXPECT_EQ(splits.test.labels, expected.test.labels);
  }
  const std::string twice = archive + tar_file("x/test_batch.bin", batch_bytes(0, 1)) + kTarEnd;
  expect_error(ErrorKind::input, {"x/test_batch.bin", "twice"},
               [&] { read(put("twice.tar", twice)); });
}

TEST_F(Cifar10Test, FindsTheFolderInside) {
  std::filesystem::create_directories(path("outer/cifar-10-batches-bin"));
  for (const char* name : {"data_batch_1.bin", "data_batch_2.bin", "test_batch.bin"})
    std::filesystem::rename(path(name), path("outer/cifar-10-batches-bin/") + name);
  EXPECT_EQ(read("outer").train.count(), 21);
  std::filesystem::create_directories(path("twice/cifar-10-batches-bin"));
  std::filesystem::rename(path("outer/cifar-10-batches-bin"),
                          path("twice/cifar-10-batches-bin/cifar-10-batches-bin"));
  EXPECT_EQ(read("twice").train.count(), 21);
}

TEST_F(Cifar10Test, AFolderMayHaveTheNameOfAFile) {
  for (const char* name : {"data_batch_1.bin", "data_batch_2.bin", "test_batch.bin"}) {
    std::filesystem::rename(path(name), path("moved"));
    std::filesystem::create_directories(path(name));
    std::filesystem::rename(path("moved"), path(std::string(name) + "/" + name));
  }
  EXPECT_EQ(read("").train.count(), 21);
  EXPECT_EQ(read("").test.count(), 4);
}

TEST_F(Cifar10Test, ShrinksAndConvertsToGray) {
  const ImageSplits small = read_cifar10(path(""), 8, 3);
  ASSERT_EQ(small.train.pixels.size(), 21u * 8 * 8 * 3);
  const uint8_t* image = small.train.pixels.data() + 5 * 8 * 8 * 3;
  EXPECT_EQ(image[0], 5);
  EXPECT_EQ(image[1], 12);  // green p / 4 is 8 row: rows 0 to 3
  EXPECT_EQ(image[2], 50);  // blue: 32 row + column mod 256, mean of 32 * 1.5 and 1.5, halves up
  EXPECT_EQ(image[3 * 8], 5);
  EXPECT_EQ(image[3 * 8 + 1], 44);  // rows 4 to 7
  const ImageSplits gray = read_cifar10(path(""), 32, 1);
  ASSERT_EQ(gray.test.pixels.size(), 4u * 1024);
  EXPECT_EQ(gray.test.pixels[1000], luma(100, 250, 1000 % 256));
}

TEST_F(Cifar10Test, MakesATask) {
  TaskOptions chosen = options(path(""));
  chosen.settings["class_token"] = true;
  chosen.settings["levels"] = 4;
  chosen.settings["size"] = 16;
  const auto task = make_task(chosen);
  EXPECT_EQ(task->length(), 16 * 16 * 3);
  EXPECT_EQ(task->vocab_size(), 4);
  EXPECT_EQ(task->input_vocab_size(), 14);
  EXPECT_EQ(task->shape().channels, 3);
  EXPECT_EQ(task->notes(), std::vector<std::string>{
                               "classes: 0 airplane, 1 automobile, 2 bird, 3 cat, 4 deer, 5 dog, 6 "
                               "frog, 7 horse, 8 ship, 9 truck"});
  const Batch batch = task->eval_batch(Split::test, 3, 1);
  EXPECT_EQ(batch.inputs[0], 4 + 3);  // image 103
  EXPECT_EQ(batch.targets[0], 103 / 64);
  chosen.settings["channels"] = 1;
  EXPECT_EQ(make_task(chosen)->length(), 256);
  // The fingerprint is of what is trained on.
  const std::string print = make_task(options(path("")))->fingerprint();
  EXPECT_EQ(print.size(), 64u);
  EXPECT_NE(task->fingerprint(), print);
  put("test_batch.bin", batch_bytes(0, 2));
  EXPECT_EQ(make_task(options(path("")))->fingerprint(), print);
  put("data_batch_2.bin", batch_bytes(13, 11));
  EXPECT_NE(make_task(options(path("")))->fingerprint(), print);
  TaskOptions plain = options("");
  EXPECT_EQ(task_shape(plain).length, 3072);
  EXPECT_EQ(task_shape(plain).input_vocab_size, 257);
}

TEST_F(Cifar10Test, RefusesDamagedBatches) {
  const std::string good = batch_bytes(0, 3);
  put("data_batch_2.bin", good.substr(0, good.size() - 1));
  expect_error(ErrorKind::input, {path("data_batch_2.bin"), "9218 bytes", "3073"},
               [&] { read(""); });
  put("data_batch_2.bin", "");
  expect_error(ErrorKind::input, {path("data_batch_2.bin"), "0 bytes"}, [&] { read(""); });
  std::string mislabelled = good;
  mislabelled[3073] = 10;
  put("data_batch_2.bin", mislabelled);
  expect_error(ErrorKind::input, {path("data_batch_2.bin"), "label 10 of record 1"},
               [&] { read(""); });
}

TEST_F(Cifar10Test, NamesMissingFiles) {
  std::filesystem::rename(path("data_batch_2.bin"), path("data_batch_3.bin"));
  expect_error(ErrorKind::input, {"no data_batch_2.bin"}, [&] { read(""); });
  std::filesystem::remove(path("test_batch.bin"));
  std::filesystem::remove(path("data_batch_3.bin"));
  expect_error(ErrorKind::input, {"no test_batch.bin"}, [&] { read(""); });
  std::filesystem::remove(path("data_batch_1.bin"));
  expect_error(ErrorKind::input, {path(""), "cifar-10-binary.tar.gz"}, [&] { read(""); });
  expect_error(ErrorKind::input, {path("absent"), "no such file"}, [&] { read("absent"); });
  expect_error(ErrorKind::usage, {"`data`"}, [&] { make_task(options("")); });
}

TEST_F(Cifar10Test, RefusesImpossibleOptions) {
  const auto refused = [](auto change, const std::string& fragment) {
    TaskOptions chosen = options("x");
    change(chosen);
    expect_error(ErrorKind::usage, {fragment}, [&] { task_shape(chosen); });
  };
  refused([](TaskOptions& o) { o.settings["size"] = 12; }, "32, 16 or 8");
  refused([](TaskOptions& o) { o.settings["channels"] = 2; }, "`channels` is 2");
  refused([](TaskOptions& o) { o.settings["bytes"] = true; }, "no setting `bytes`");
  refused([](TaskOptions& o) { o.name = "mnist", o.settings["channels"] = 3; },
          "task mnist has no setting `channels`");
  refused([](TaskOptions& o) { o.name = "copy", o.settings = {}, o.settings["flip"] = true; },
          "task copy has no setting `flip`");
}

// A mirrored image is the image with its columns in the opposite order, its colors in the
// same.
TEST_F(Cifar10Test, FlipsTrainingImagesAtRandom) {
  TaskOptions chosen = options(path(""));
  const auto plain = make_task(chosen);
  chosen.settings["flip"] = true;
  const auto flipping = make_task(chosen);
  std::map<bool, int> seen;
  std::map<std::vector<int32_t>, int> variants;
  for (uint64_t step = 0; step < 42; ++step) {
    const Batch batch = plain->train_rows(3, step * 2, 2),
                other = flipping->train_rows(3, step * 2, 2);
    for (int64_t row = 0; row < 2; ++row) {
      std::vector<int32_t> mirror;
      const auto begin = batch.targets.begin() + row * 3072,
                 flipped = other.targets.begin() + row * 3072;
      for (int64_t y = 0; y < 32; ++y)
        for (int64_t x = 31; x >= 0; --x)
          mirror.insert(mirror.end(), begin + (y * 32 + x) * 3, begin + (y * 32 + x) * 3 + 3);
      const bool same = std::equal(begin, begin + 3072, flipped);
      ++seen[same];
      ++variants[{flipped, flipped + 3072}];
      EXPECT_TRUE(same || std::equal(mirror.begin(), mirror.end(), flipped)) << step;
      EXPECT_TRUE(std::equal(flipped, flipped + 3071, other.inputs.begin() + row * 3072 + 1));
    }
  }
  EXPECT_NEAR(seen[true], 42, 20);  // 4 standard deviations
  EXPECT_GT(variants.size(), 21u);  // an image is mirrored in some epochs and not in others
  EXPECT_EQ(flipping->train_rows(3, 10, 2).targets, flipping->train_rows(3, 10, 2).targets);
  EXPECT_EQ(flipping->eval_batch(Split::train, 0, 21).targets,
            plain->eval_batch(Split::train, 0, 21).targets);
  EXPECT_EQ(flipping->eval_batch(Split::val, 0, 2).targets,
            plain->eval_batch(Split::val, 0, 2).targets);
}

}  // namespace
}  // namespace linea
