#include "data/readers/mnist.h"

#include "data/tasks/task.h"
#include "tests/data/data_helpers.h"
#include "tests/data/readers/idx_bytes.h"

namespace linea {
namespace {

class MnistTest : public DataTest {
 protected:
  // `count` images; all pixels of image i are i, label i % 10.
  void put_set(const std::string& name, uint32_t count) const {
    std::string pixels, labels;
    for (uint32_t i = 0; i < count; ++i) {
      pixels += std::string(28 * 28, static_cast<char>(i));
      labels += static_cast<char>(i % 10);
    }
    put(name + "-images-idx3-ubyte", idx_bytes({count, 28, 28}, pixels));
    put(name + "-labels-idx1-ubyte", idx_bytes({count}, labels));
  }

  void SetUp() override {
    put_set("train", 24);
    put_set("t10k", 7);
  }
};

TEST_F(MnistTest, SplitsTheTrainingFile) {
  const ImageSplits splits = read_mnist(path(""), 28);
  EXPECT_EQ(splits.train.count(), 22);
  EXPECT_EQ(splits.val.count(), 2);
  EXPECT_EQ(splits.test.count(), 7);
  EXPECT_EQ(splits.train.pixels.size(), 22u * 784u);
  EXPECT_EQ(splits.train.pixels.back(), 21);
  EXPECT_EQ(splits.val.pixels.front(), 22);
  EXPECT_EQ(splits.val.labels, (std::vector<uint8_t>{2, 3}));
  EXPECT_EQ(splits.test.pixels.back(), 6);
}

TEST_F(MnistTest, HalvesByTheMeanOfFourPixels) {
  std::string pixels(24 * 784, '\0');
  pixels[28 * 2 + 4] = 100;  // row 2, column 4 of image 0: pixel (1, 2) of 14 x 14
  pixels[28 * 3 + 5] = 61;
  pixels[784 + 783] = 4;  // the last pixel of image 1
  put("train-images-idx3-ubyte", idx_bytes({24, 28, 28}, pixels));
  const ImageSet train = read_mnist(path(""), 14).train;
  ASSERT_EQ(train.pixels.size(), 22u * 196u);
  EXPECT_EQ(train.pixels[14 + 2], 40);  // (100 + 61 + 2) / 4
  EXPECT_EQ(train.pixels[196 + 195], 1);
  EXPECT_EQ(train.pixels[0], 0);
}

// As Kaggle unpacks it: each file in a folder of its name, with or without the files themselves.
TEST_F(MnistTest, AFolderMayHaveTheNameOfAFile) {
  namespace fs = std::filesystem;
  const ImageSplits expected = read_mnist(path(""), 28);
  for (const char* stem : {"train-images", "train-labels", "t10k-images", "t10k-labels"}) {
    const std::string ending = std::string(stem).ends_with("images") ? "idx3-ubyte" : "idx1-ubyte";
    const std::string dashed = fmt::format("{}-{}", stem, ending);
    fs::create_directories(path("both/" + dashed));
    fs::create_directories(path("only/" + dashed));
    fs::create_directories(path("packed/" + dashed + ".gz"));
    fs::copy_file(path(dashed), path(fmt::format("both/{}.{}", stem, ending)));
    fs::copy_file(path(dashed), path(fmt::format("only/{}/{}", dashed, dashed)));
    fs::copy_file(path(dashed), path(fmt::format("packed/{}.gz/{}", dashed, dashed)));
  }
  for (const char* name : {"both", "only", "packed"}) {
    const ImageSplits splits = read_mnist(path(name), 28);
    EXPECT_EQ(splits.train.pixels, expected.train.pixels) << name;
    EXPECT_EQ(splits.test.labels, expected.test.labels) << name;
  }
  fs::remove_all(path("only/t10k-labels-idx1-ubyte"));
  fs::create_directories(path("only/t10k-labels-idx1-ubyte"));
  expect_error(ErrorKind::input, {path("only"), "no t10k-labels-idx1-ubyte"},
               [&] { read_mnist(path("only"), 28); });
}

TEST_F(MnistTest, AcceptsBothSpellingsAndGzip) {
  const std::string old_name = path("t10k-images-idx3-ubyte");
  put("t10k-images.idx3-ubyte.gz", gzip(read_file(old_name)));
  std::filesystem::remove(old_name);
  EXPECT_EQ(read_mnist(path(""), 28).test.count(), 7);
}

TEST_F(MnistTest, RefusesMismatchedFiles) {
  const std::string labels = path("train-labels-idx1-ubyte");
  put("train-labels-idx1-ubyte", idx_bytes({23}, std::string(23, '\0')));
  expect_error(ErrorKind::input, {labels, "24 images", "23 labels"},
               [&] { read_mnist(path(""), 28); });
  put("train-labels-idx1-ubyte", idx_bytes({24}, std::string(5, '\0') + std::string(19, '\x0B')));
  expect_error(ErrorKind::input, {labels, "label 11 of image 5"},
               [&] { read_mnist(path(""), 28); });
  put("train-images-idx3-ubyte", idx_bytes({24, 14, 14}, std::string(24 * 196, '\0')));
  expect_error(ErrorKind::input, {"train-images-idx3-ubyte", "14 x 14", "28 x 28"},
               [&] { read_mnist(path(""), 28); });
}

TEST_F(MnistTest, NamesMissingFiles) {
  std::filesystem::remove(path("t10k-labels-idx1-ubyte"));
  expect_error(ErrorKind::input, {path(""), "t10k-labels-idx1-ubyte"},
               [&] { read_mnist(path(""), 28); });
  expect_error(ErrorKind::input, {path("absent"), "not a folder"},
               [&] { read_mnist(path("absent"), 28); });
  TaskOptions options;
  options.name = "mnist";
  expect_error(ErrorKind::usage, {"`data`"}, [&] { make_task(options); });
  options.settings["data"] = path("");
  options.settings["size"] = 20;
  expect_error(ErrorKind::usage, {"20", "28 or 14"}, [&] { make_task(options); });
}

TEST_F(MnistTest, MakesATask) {
  TaskOptions options;
  options.name = "mnist";
  options.settings["data"] = path("");
  options.settings["size"] = 14;
  const auto task = make_task(options);
  EXPECT_EQ(task->length(), 196);
  EXPECT_EQ(task->rows(Split::train), 22);
  EXPECT_EQ(task->eval_batch(Split::test, 6, 1).targets.front(), 6);
}

}  // namespace
}  // namespace linea
