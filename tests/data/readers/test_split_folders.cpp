#include "data/readers/image_folder.h"
#include "data/tasks/task.h"
#include "tests/data/data_helpers.h"
#include "tests/data/readers/png_bytes.h"

namespace linea {
namespace {

namespace fs = std::filesystem;
using Pixels = std::vector<uint8_t>;
using Names = std::vector<std::string>;

class SplitFolders : public DataTest {
 protected:
  // Images first .. first + count - 1; image i shows i.
  void put_images(const std::string& folder, int first, int count) const {
    fs::create_directories(path(folder));
    for (int i = first; i < first + count; ++i)
      put(fmt::format("{}/{:03}.png", folder, i),
          png_bytes(1, 1, 8, 0, {std::string(1, static_cast<char>(i))}));
  }
  ImageFolder read(Labels labels = Labels::folders) const {
    return read_image_folder(path(""), 1, 1, labels);
  }
  void expect_refused(std::initializer_list<std::string> fragments) const {
    expect_error(ErrorKind::input, fragments, [&] { read(); });
  }
};

TEST_F(SplitFolders, AreTheSplits) {
  put_images("train/cat", 0, 6);
  put_images("train/dog", 10, 2);
  put_images("valid/dog/young", 20, 1);
  put_images("TEST/cat", 30, 2);
  put_images("TEST/dog", 40, 1);
  fs::create_directories(path("notes"));  // without images
  put("notes/a.txt", "");
  put_images(".", 99, 1);
  const ImageFolder folder = read();
  EXPECT_EQ(folder.classes, (Names{"cat", "dog"}));
  EXPECT_EQ(folder.splits.train.pixels, (Pixels{0, 1, 2, 3, 4, 5, 10, 11}));
  EXPECT_EQ(folder.splits.train.labels, (Pixels{0, 0, 0, 0, 0, 0, 1, 1}));
  EXPECT_EQ(folder.splits.val.pixels, Pixels{20});
  EXPECT_EQ(folder.splits.val.labels, Pixels{1});
  EXPECT_EQ(folder.splits.test.pixels, (Pixels{30, 31, 40}));
  EXPECT_EQ(folder.splits.test.labels, (Pixels{0, 0, 1}));
  EXPECT_EQ(folder.notes, (Names{path("") + ": the splits are its folders: train, valid, TEST",
                                 path("") + ": left out: 1 image outside of these folders",
                                 path("") + ": left out: 1 .txt file"}));
  EXPECT_EQ(read(Labels::none).splits.train.pixels, folder.splits.train.pixels);
}

TEST_F(SplitFolders, ValIsTakenFromTrain) {
  put_images("train/cat", 0, 12);
  put_images("train/dog", 20, 8);
  const ImageFolder folder = read();
  EXPECT_EQ(folder.splits.val.pixels, (Pixels{8, 26}));
  EXPECT_EQ(folder.splits.val.labels, (Pixels{0, 1}));
  EXPECT_EQ(folder.splits.train.count(), 18);
  EXPECT_EQ(folder.splits.test.count(), 0);
  EXPECT_EQ(folder.notes, Names{path("") + ": the splits are its folders: train (of ten images one "
                                           "is val), no test"});
  TaskOptions options;
  options.name = "images";
  options.settings["data"] = path("");
  options.settings["size"] = 1;
  options.settings["class_token"] = true;
  const auto task = make_task(options);
  EXPECT_TRUE(task->has(Split::val));
  EXPECT_FALSE(task->has(Split::test));
  EXPECT_EQ(task->rows(Split::train), 18);
  EXPECT_EQ(task->notes().back(), "classes: 0 cat, 1 dog");
  for (const auto& ask : std::vector<std::function<void()>>{
           [&] { task->rows(Split::test); }, [&] { task->eval_batch(Split::test, 0, 1); }})
    expect_error(ErrorKind::usage, {"no test split", "`data`", "a folder test"}, ask);
  // All in one folder is other training data.
  const std::string fingerprint = task->fingerprint();
  fs::create_directories(path("mixed"));
  fs::rename(path("train"), path("mixed/train"));
  put_images("mixed/bus", 50, 1);
  options.settings["data"] = path("mixed");
  EXPECT_NE(make_task(options)->fingerprint(), fingerprint);
}

TEST_F(SplitFolders, NeedEnoughImages) {
  put_images("train/cat", 0, 8);
  expect_refused({path(""), "8 images in train", "folder val"});
  put_images("val/cat", 20, 1);
  EXPECT_EQ(read().splits.train.count(), 8);
}

TEST_F(SplitFolders, AreClassesNextToOthers) {
  put_images("train", 0, 10);
  put_images("bus", 20, 10);
  EXPECT_EQ(read().classes, (Names{"bus", "train"}));
  EXPECT_TRUE(read().notes.empty());
  put_images("val", 40, 1);
  EXPECT_EQ(read().classes, (Names{"bus", "train", "val"}));
  EXPECT_EQ(read().notes,
            Names{path("") + ": train and val are no splits here, since bus holds images too"});
}

TEST_F(SplitFolders, RefuseWhatHasNoPlace) {
  put_images("val/cat", 0, 5);
  put_images("test/cat", 10, 5);
  expect_refused({path(""), "images in test and val but none in train"});
  put_images("train/cat", 20, 5);
  EXPECT_EQ(read().classes, Names{"cat"});
  put_images("test/bird", 30, 1);
  expect_refused({path(""), "test/bird", "no class of the training images, cat"});
  EXPECT_EQ(read(Labels::none).splits.test.count(), 6);
  fs::remove_all(path("test/bird"));
  put_images("validation/cat", 40, 1);
  expect_refused({path(""), "val and validation", "one split"});
  fs::remove_all(path("validation"));
  put_images("train", 50, 1);
  expect_refused({path("train/050.png"), "no class folder", "`class_token`"});
}

TEST_F(SplitFolders, NameAClassThatIsNotUtf8) {
  put_images("train/caf\xE9", 0, 10);
  expect_refused({path(""), "train/caf\\xE9", "not UTF-8", "rename it"});
  EXPECT_EQ(read(Labels::none).splits.train.count(), 9);
}

}  // namespace
}  // namespace linea
