#include "data/readers/image_folder.h"

#include <algorithm>

#include "data/tasks/image_folder_task.h"
#include "tests/data/data_helpers.h"
#include "tests/data/readers/png_bytes.h"

namespace linea {
namespace {

namespace fs = std::filesystem;
using Notes = std::vector<std::string>;

class ImageFolderTest : public DataTest {
 protected:
  // A gray image of one value.
  void put_gray(const std::string& name, int gray) const {
    fs::create_directories(fs::path(path(name)).parent_path());
    put(name, png_bytes(1, 1, 8, 0, {std::string(1, static_cast<char>(gray))}));
  }

  // Images first .. first + count - 1 of a class; image i shows i.
  void put_class(const std::string& name, int first, int count) const {
    for (int i = first; i < first + count; ++i) put_gray(fmt::format("{}/{:03}.png", name, i), i);
  }

  ImageFolder read(Labels labels = Labels::none) const {
    return read_image_folder(path(""), 1, 1, labels);
  }

  static std::vector<uint8_t> all_pixels(const ImageFolder& folder) {
    std::vector<uint8_t> pixels;
    for (const ImageSet* set : {&folder.splits.train, &folder.splits.val, &folder.splits.test})
      pixels.insert(pixels.end(), set->pixels.begin(), set->pixels.end());
    std::sort(pixels.begin(), pixels.end());
    return pixels;
  }

  TaskOptions options() const {
    TaskOptions chosen;
    chosen.name = "images";
    chosen.settings["data"] = path("");
    chosen.settings["size"] = 2;
    return chosen;
  }
};

TEST_F(ImageFolderTest, SplitsByTheOrderOfPaths) {
  put_class("b", 10, 12);
  put_class("a/deep", 0, 10);
  const ImageFolder folder = read();
  EXPECT_EQ(folder.splits.train.pixels,
            (std::vector<uint8_t>{0, 1, 2, 3, 4, 5, 6, 7, 10, 11, 12, 13, 14, 15, 16, 17, 20, 21}));
  EXPECT_EQ(folder.splits.val.pixels, (std::vector<uint8_t>{8, 18}));
  EXPECT_EQ(folder.splits.test.pixels, (std::vector<uint8_t>{9, 19}));
  EXPECT_TRUE(folder.classes.empty());
  EXPECT_TRUE(folder.notes.empty());
}

TEST_F(ImageFolderTest, OrdersByBytes) {
  for (int i = 0; i < 7; ++i) put_gray(fmt::format("z{}.png", i), 100 + i);
  put_gray("Zebra.png", 1);
  put_gray("\xC3\xA4.png", 200);  // after all ASCII, wherever the language puts it
  put_gray("a.png", 2);
  EXPECT_EQ(read().splits.train.pixels, (std::vector<uint8_t>{1, 2, 100, 101, 102, 103, 104, 105}));
  EXPECT_EQ(read().splits.test.pixels, (std::vector<uint8_t>{200}));
}

TEST_F(ImageFolderTest, FoldersDirectlyInsideAreClasses) {
  put_class("dog/old", 0, 5);
  put_class("dog-b", 5, 5);  // "dog-b/" sorts before "dog/"
  put_class("cat", 10, 10);
  const ImageFolder folder = read(Labels::folders);
  EXPECT_EQ(folder.classes, (std::vector<std::string>{"cat", "dog", "dog-b"}));
  for (const ImageSet* set : {&folder.splits.train, &folder.splits.val, &folder.splits.test})
    for (size_t i = 0; i < set->labels.size(); ++i)
      EXPECT_EQ(set->labels[i], set->pixels[i] >= 10 ? 0 : set->pixels[i] < 5 ? 1 : 2);
  put_gray("outside.png", 3);
  EXPECT_EQ(all_pixels(read()).size(), 21u);
  expect_error(ErrorKind::input, {path("outside.png"), "`class_token`"},
               [&] { read(Labels::folders); });
}

TEST_F(ImageFolderTest, SkipsOtherAndHiddenFiles) {
  put_class("a", 0, 10);
  put("a/labels.csv", "not an image");
  put("a/._000.png", "not an image");
  put_gray(".hidden/000.png", 50);
  for (const char* name : {"a/998.jfif", "a/999.JPG"})
    put(name, jpeg_bytes(8, 8, 1, std::vector<uint8_t>(64, 200)));
  const ImageFolder folder = read();
  const std::vector<uint8_t> pixels = all_pixels(folder);
  ASSERT_EQ(pixels.size(), 12u);
  EXPECT_NEAR(pixels.back(), 200, 2);
  EXPECT_EQ(folder.notes, Notes{path("") + ": left out: 1 .csv file"});
  put("a/moving.gif", "GIF89a");
  EXPECT_EQ(read().notes, Notes{path("") + ": left out: 1 .csv file, 1 .gif file"});
}

// Folders inside come first, then links in the order of their paths.
TEST_F(ImageFolderTest, FollowsLinksToEachFolderOnce) {
  put_class("inner/z", 0, 10);
  put_class("outside/deep", 50, 5);
  put_gray("outside/060.png", 60);
  fs::create_directory_symlink(path("outside"), path("inner/link"));
  fs::create_directory_symlink(path("outside"), path("inner/link2"));
  fs::create_directory_symlink(path("inner"), path("inner/z/loop"));
  fs::create_directory_symlink(path("inner/z"), path("inner/a"));
  fs::create_symlink(path("outside/060.png"), path("inner/z/linked.png"));
  fs::create_symlink(path("absent.png"), path("inner/dead.png"));
  ImageFolder folder = read_image_folder(path("inner"), 1, 1, Labels::folders);
  EXPECT_EQ(all_pixels(folder),
            (std::vector<uint8_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 50, 51, 52, 53, 54, 60, 60}));
  EXPECT_EQ(folder.classes, (std::vector<std::string>{"link", "z"}));
  EXPECT_EQ(folder.notes, Notes{path("inner") + ": left out: 1 link to nothing, 3 links to folders "
                                                "that are read already"});
  fs::create_directory_symlink(path("inner"),
                               path("door"));  // what the user names may be a link itself
  EXPECT_EQ(all_pixels(read_image_folder(path("door"), 1, 1)).size(), 17u);
}

TEST_F(ImageFolderTest, SaysWhatItFoundInstead) {
  put("a.webp", "");
  put("b.WebP", "");
  put("c.gif", "");
  put("d", "");
  put("e.a name", "");
  fs::create_symlink(path("absent.png"), path("f.png"));
  expect_error(ErrorKind::input,
               {path(""),
                "holds 0 PNG and JPEG files (.png, .jpg, .jpeg, .jfif), but 1 .gif file, "
                "2 .webp files, 2 other files, 1 link to nothing"},
               [&] { read(); });
  fs::create_directories(path("folder"));
  expect_error(ErrorKind::input,
               {"holds 0 PNG and JPEG files (.png, .jpg, .jpeg, .jfif); convert or add images"},
               [&] { read_image_folder(path("folder"), 1, 1); });
}

TEST_F(ImageFolderTest, SkipsUpToOnePercentBadFiles) {
  put_class("a", 0, 199);
  put("a/100.png", "no image");
  put("a/zzz.png", "");
  const ImageFolder folder = read();
  EXPECT_EQ(all_pixels(folder).size(), 198u);
  ASSERT_EQ(folder.notes.size(), 3u);
  EXPECT_NE(folder.notes[2].find("2 of 200 images are skipped"), std::string::npos)
      << folder.notes[2];
  EXPECT_NE(folder.notes[0].find(path("a/100.png")), std::string::npos);
  EXPECT_NE(folder.notes[0].find("neither a PNG nor a JPEG"), std::string::npos);
  // The others stay in their splits.
  fs::remove(path("a/zzz.png"));
  put_gray("a/100.png", 100);
  const ImageFolder repaired = read();
  EXPECT_TRUE(repaired.notes.empty());
  EXPECT_EQ(folder.splits.val.pixels, repaired.splits.val.pixels);
  EXPECT_EQ(folder.splits.test.pixels, repaired.splits.test.pixels);
  for (const char* name : {"a/001.png", "a/002.png"}) put(name, "bad");
  expect_error(ErrorKind::input, {path(""), "more than one in 100 of its 199", path("a/002.png")},
               [&] { read(); });
}

TEST_F(ImageFolderTest, ShowsTheFirstNotesAndCountsTheRest) {
  put_class("a", 0, 250);
  for (int i = 0; i < 700; ++i) fs::copy_file(path("a/000.png"), path(fmt::format("a/x{}.png", i)));
  for (int i = 0; i < 7; ++i) put(fmt::format("a/bad{}.png", i), "bad");
  const ImageFolder folder = read();
  ASSERT_EQ(folder.notes.size(), 6u);
  EXPECT_NE(folder.notes.back().find("7 of 957"), std::string::npos) << folder.notes.back();
}

TEST_F(ImageFolderTest, RefusesTooFewAndTooMuch) {
  put_class("a", 0, 9);
  expect_error(ErrorKind::input, {path(""), "9 PNG", "at least 10"}, [&] { read(); });
  put_class("a", 9, 90);
  expect_error(ErrorKind::input,
               {"99 images of 4096 x 4096 x 3", fmt::format("{}", kMaxImagesBytes)},
               [&] { read_image_folder(path(""), 4096, 3); });
  expect_error(ErrorKind::input, {path("absent"), "not a folder"},
               [&] { read_image_folder(path("absent"), 1, 1); });
}

TEST_F(ImageFolderTest, MakesATask) {
  put_class("cat", 0, 10);
  put_class("dog", 100, 10);
  TaskOptions chosen = options();
  const auto plain = make_task(chosen);
  EXPECT_EQ(plain->length(), 12);
  EXPECT_EQ(plain->rows(Split::train), 16);
  EXPECT_EQ(plain->rows(Split::val), 2);
  EXPECT_EQ(plain->serialized_vocabulary(), "");
  EXPECT_EQ(plain->eval_batch(Split::test, 1, 1).targets, std::vector<int32_t>(12, 109));
  chosen.settings["class_token"] = true;
  chosen.settings["channels"] = 1;
  chosen.settings["levels"] = 16;
  const auto task = make_task(chosen);
  EXPECT_EQ(task->length(), 4);
  EXPECT_EQ(task->input_vocab_size(), 18);
  EXPECT_EQ(task->eval_batch(Split::test, 0, 2).inputs,
            (std::vector<int32_t>{16, 0, 0, 0, 17, 6, 6, 6}));
  // The names alone give the shape, and hold for other data.
  TaskOptions later = chosen;
  later.vocabulary = task->serialized_vocabulary();
  EXPECT_TRUE(is_class_list(later.vocabulary));
  EXPECT_EQ(parse_classes(later.vocabulary), (std::vector<std::string>{"cat", "dog"}));
  fs::remove_all(path("cat"));
  EXPECT_EQ(make_task(later)->eval_batch(Split::test, 0, 1).inputs[0], 17);
  later.settings["data"] = "";
  EXPECT_EQ(task_shape(later).input_vocab_size, 18);
  fs::rename(path("dog"), path("horse"));
  later.settings["data"] = path("");
  expect_error(ErrorKind::input, {"'horse'", "cat, dog"}, [&] { make_task(later); });
}

TEST_F(ImageFolderTest, RefusesDamagedClassesAndImpossibleOptions) {
  for (const std::string damaged :
       {"", "x", "{}", R"({"kind":"classes"})", R"({"kind":"classes","names":[]})",
        R"({"kind":"classes","names":["b","a"]})", R"({"kind":"classes","names":["a",1]})",
        R"({"kind":"bytes","tokens":[1]})"})
    expect_error(ErrorKind::input, {"damaged"}, [&] { parse_classes(damaged); });
  TaskOptions chosen = options();
  chosen.settings["size"] = 2000;
  expect_error(ErrorKind::usage, {"`size` is 2000"}, [&] { task_shape(chosen); });
  chosen = options();
  chosen.settings["class_token"] = true;
  expect_error(ErrorKind::usage, {"names of the classes"}, [&] { task_shape(chosen); });
  chosen = options();
  chosen.settings["data"] = "";
  expect_error(ErrorKind::usage, {"`data`"}, [&] { make_task(chosen); });
  expect_error(ErrorKind::input, {"'caf\\xE9'", "not UTF-8", "rename"},
               [] { serialize_classes({"caf\xE9"}); });
}

}  // namespace
}  // namespace linea
