#include "data/files.h"

#include <fmt/ranges.h>
#include <sys/stat.h>

#include <algorithm>
#include <vector>

#include "tests/data/data_helpers.h"
#include "tests/data/file_size_limit.h"

namespace linea {
namespace {

class FilesTest : public DataTest {
 protected:
  // The names in the folder: what is left behind shows here.
  std::string names() const {
    std::vector<std::string> found;
    for (const auto& item : std::filesystem::directory_iterator(path("")))
      found.push_back(item.path().filename().string());
    std::sort(found.begin(), found.end());
    return fmt::format("{}", fmt::join(found, " "));
  }
};

TEST_F(FilesTest, WritesAndReplaces) {
  const std::string all = std::string("a\0b\n", 4) + std::string(100000, 'x');
  write_file_atomically(path("new"), all);
  EXPECT_EQ(read_file(path("new")), all);
  write_file_atomically(path("new"), "");
  EXPECT_EQ(read_file(path("new")), "");
  EXPECT_EQ(names(), "new");
}

TEST_F(FilesTest, NothingIsVisibleBeforeCommit) {
  put("file", "old");
  {
    AtomicFile file(path("file"));
    file.write("ne");
    EXPECT_EQ(names().substr(0, 5), ".tmp-");
    file.write("w");
    EXPECT_EQ(read_file(path("file")), "old");
    file.commit();
    EXPECT_EQ(read_file(path("file")), "new");
    expect_error(ErrorKind::usage, {path("file"), "commit after commit"}, [&] { file.commit(); });
    expect_error(ErrorKind::usage, {path("file"), "write after commit"}, [&] { file.write("x"); });
  }
  {
    AtomicFile file(path("file"));
    file.write("given up");
  }
  EXPECT_EQ(read_file(path("file")), "new");
  EXPECT_EQ(names(), "file");
}

TEST_F(FilesTest, ConcurrentWritesDoNotMix) {
  AtomicFile first(path("first")), second(path("second"));
  first.write("1");
  second.write("2");
  first.commit();
  second.commit();
  EXPECT_EQ(read_file(path("first")) + read_file(path("second")), "12");
}

TEST_F(FilesTest, SkipsTemporaryFilesOfACrash) {
  AtomicFile probe(path("probe"));
  const std::string name = names();
  const size_t number = std::stoul(name.substr(name.rfind('-') + 1));
  const std::string next = fmt::format(".tmp-{}-{}", getpid(), number + 1);
  put(next, "left");
  write_file_atomically(path("file"), "whole");
  EXPECT_EQ(read_file(path("file")), "whole");
  EXPECT_EQ(read_file(path(next)), "left");
}

TEST_F(FilesTest, FilesHaveTheUsualPermissions) {
  const mode_t before = umask(022);
  write_file_atomically(path("file"), "x");
  umask(before);
  struct stat facts {};
  ASSERT_EQ(stat(path("file").c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777u, 0644u);
}

TEST_F(FilesTest, WritesIntoTheCurrentFolder) {
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(path(""));
  write_file_atomically("plain", "x");
  std::filesystem::current_path(before);
  EXPECT_EQ(names(), "plain");
}

TEST_F(FilesTest, AFullDiskLeavesTheOldFile) {
  put("file", "old");
  {
    const FileSizeLimit limit(1000);
    expect_error(ErrorKind::write, {path("file"), "cannot be written", "File too large", "ulimit"},
                 [&] { write_file_atomically(path("file"), std::string(1001, 'x')); });
  }
  EXPECT_EQ(read_file(path("file")), "old");
  EXPECT_EQ(names(), "file");
  {
    const FileSizeLimit limit(1000);
    write_file_atomically(path("file"), std::string(1000, 'x'));
  }
  EXPECT_EQ(read_file(path("file")).size(), 1000u);
}

TEST_F(FilesTest, WriteErrorsNameThePathAndTheReason) {
  put("file", "old");
  std::filesystem::create_directory(path("folder"));
  ASSERT_EQ(mkfifo(path("pipe").c_str(), 0600), 0);
  const auto refused = [&](const std::string& file, std::initializer_list<std::string> fragments) {
    expect_error(ErrorKind::write, {file}, [&] { write_file_atomically(file, "x"); });
    expect_error(ErrorKind::write, fragments, [&] { write_file_atomically(file, "x"); });
  };
  refused(path("file/inside"), {"Not a directory", "a parent is a file"});
  refused(path("missing/file"), {"No such file or directory", "create the folder"});
  refused(path("folder"), {"is a folder"});
  refused(path("folder/"), {"is a folder"});
  refused(path("pipe"), {"not a regular file"});
  refused(path(std::string(300, 'n')), {"File name too long", "shorter"});
  EXPECT_TRUE(std::filesystem::is_fifo(path("pipe")));
  expect_error(ErrorKind::write, {"is a folder"}, [] { write_file_atomically("", "x"); });
  EXPECT_EQ(read_file(path("file")), "old");
  EXPECT_EQ(names(), "file folder pipe");
}

TEST_F(FilesTest, AFailedRenameLeavesNothing) {
  AtomicFile file(path("file"));
  file.write("x");
  std::filesystem::create_directories(path("file/inside"));
  expect_error(ErrorKind::write, {path("file"), "cannot be renamed to this name", "directory"},
               [&] { file.commit(); });
  EXPECT_EQ(names(), "file");
}

TEST_F(FilesTest, MakesFolders) {
  make_folders(path("a/b/c"));
  make_folders(path("a/b/c"));
  make_folders(path("a/d/"));
  make_folders("");
  EXPECT_TRUE(std::filesystem::is_directory(path("a/b/c")));
  EXPECT_TRUE(std::filesystem::is_directory(path("a/d")));
  std::filesystem::create_directory_symlink(path("a"), path("link"));
  make_folders(path("link/e"));
  EXPECT_TRUE(std::filesystem::is_directory(path("a/e")));
}

TEST_F(FilesTest, CreatingFoldersNamesTheFileInTheWay) {
  put("file", "x");
  for (const std::string& folder : {path("file"), path("file/a"), path("file/a/b")})
    expect_error(ErrorKind::write, {folder + ": cannot be created", path("file") + " is a file"},
                 [&] { make_folders(folder); });
  const std::string longest = path("new/" + std::string(300, 'n'));
  expect_error(ErrorKind::write, {longest, "File name too long"}, [&] { make_folders(longest); });
  expect_error(ErrorKind::write, {"/proc/new"}, [&] { make_folders("/proc/new"); });
}

TEST_F(FilesTest, ReadErrors) {
  expect_error(ErrorKind::input, {path("no"), "no such file"}, [&] { read_file(path("no")); });
  expect_error(ErrorKind::input, {path(""), "is a folder"}, [&] { read_file(path("")); });
  put("file", "12345");
  EXPECT_EQ(read_file(path("file"), 5), "12345");
  expect_error(ErrorKind::input, {path("file"), "5 bytes", "at most 4"},
               [&] { read_file(path("file"), 4); });
}

}  // namespace
}  // namespace linea
