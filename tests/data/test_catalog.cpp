#include "data/catalog.h"

#include <set>

#include "tests/data/data_helpers.h"
#include "tests/data/readers/idx_bytes.h"
#include "tests/data/readers/zip_bytes.h"

namespace linea {
namespace {

std::string repeated(const std::string& word, int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += word;
  return text;
}

const std::string kText = repeated("to be or not ", 50);

class CatalogTest : public DataTest {
 protected:
  // One file of each kind; the archives are the published ones.
  std::vector<DataSet> sets_{
      {"plain",
       "a text",
       "text",
       {{"plain.txt", 3, hash_bytes("abc"), {"https://there/plain.txt"}}}},
      {"packed",
       "a packed text",
       "text",
       {{"packed-idx1.gz",
         0,
         hash_bytes(gzip(kText)),
         {},
         {{"packed-idx1", 650, hash_bytes(kText, HashKind::md5)}}}}},
      {"zipped",
       "a text without a sha256",
       "text",
       {{"zipped.zip", 0, "", {}, {{"zipped", 650, hash_bytes(kText, HashKind::md5)}}}}},
      {"batches",
       "two files",
       "cifar10",
       {{"batches.tar.gz",
         0,
         hash_bytes("archive"),
         {},
         {{"inner/one.bin", 5}, {"inner/two.bin", 6}}}}},
  };

  std::vector<FileReport> check(size_t set) const {
    return check_file(sets_[set], sets_[set].files[0], path(""));
  }
  void expect_one(size_t set, FileState state, const std::string& by) const {
    const std::vector<FileReport> reports = check(set);
    ASSERT_EQ(reports.size(), 1u);
    EXPECT_EQ(reports[0].state, state) << reports[0].found;
    EXPECT_EQ(reports[0].criterion, by);
  }
};

TEST_F(CatalogTest, APlainFileGoesByItsHash) {
  expect_one(0, FileState::missing, "");
  put("plain.txt", "abc");
  expect_one(0, FileState::ok, "sha256");
  put("plain.txt", "abd");
  expect_one(0, FileState::differs, "sha256");
  EXPECT_EQ(check(0)[0].expected, hash_bytes("abc"));
  EXPECT_EQ(check(0)[0].found, hash_bytes("abd"));
}

TEST_F(CatalogTest, AFolderMayHaveTheNameOfAFile) {
  for (const char* name : {"plain.txt", "packed-idx1", "zipped"})
    std::filesystem::create_directories(path(name));
  expect_one(0, FileState::missing, "");
  put("plain.txt/plain.txt", "abc");
  expect_one(0, FileState::ok, "sha256");
  put("packed-idx1/packed-idx1", kText);
  expect_one(1, FileState::ok, "md5");
  put("packed.idx1", kText);  // next to it
  expect_one(1, FileState::ok, "md5");
}

TEST_F(CatalogTest, AnArchiveMayBePackedAnew) {
  put("packed-idx1.gz", gzip(kText));
  expect_one(1, FileState::ok, "sha256");
  const std::string half = kText.substr(0, 300);
  put("packed-idx1.gz", gzip(half) + gzip(kText.substr(300)));  // two members unpack to their sum
  ASSERT_NE(hash_file(path("packed-idx1.gz")), sets_[1].files[0].sha256);
  expect_one(1, FileState::ok, "md5 of its content");
  put("packed-idx1.gz", gzip(half));
  expect_one(1, FileState::differs, "md5 of its content");
  EXPECT_EQ(check(1)[0].found, hash_bytes(half, HashKind::md5));
  put("packed-idx1.gz", gzip(kText).substr(0, 20));
  EXPECT_NE(check(1)[0].found.find("is truncated"), std::string::npos) << check(1)[0].found;
  put("packed-idx1.gz", gzip(kText + kText));
  expect_one(1, FileState::differs, "md5 of its content");
  put("zipped.zip", zip_bytes({zip_entry("zipped", kText)}));
  expect_one(2, FileState::ok, "md5 of its content");
  put("zipped.zip", zip_bytes({zip_entry("zipped", kText, false)}));
  expect_one(2, FileState::ok, "md5 of its content");
  put("zipped.zip", "no archive");
  expect_one(2, FileState::differs, "md5 of its content");
}

TEST_F(CatalogTest, WhatIsUnpackedCounts) {
  put("packed.idx1", kText);  // the other spelling
  expect_one(1, FileState::ok, "md5");
  put("packed.idx1", kText + "x");
  expect_one(1, FileState::differs, "md5");
  put("two.bin", "sixsix");
  const std::vector<FileReport> reports = check(3);
  ASSERT_EQ(reports.size(), 2u);
  EXPECT_EQ(reports[0].file, "inner/one.bin");
  EXPECT_EQ(reports[0].state, FileState::missing);
  EXPECT_EQ(reports[1].state, FileState::unverified);
  EXPECT_NE(reports[1].criterion.find("size"), std::string::npos);
  put("two.bin", "five5");
  EXPECT_EQ(check(3)[1].state, FileState::differs);
  EXPECT_EQ(check(3)[1].found, "5 bytes");
}

TEST_F(CatalogTest, AFolderIsVerifiedForTheSetsItHolds) {
  expect_error(ErrorKind::input, {path(""), "plain, packed, zipped, batches"},
               [&] { verify_folder(path(""), sets_); });
  put("plain.txt", "abc");
  EXPECT_EQ(verify_folder(path(""), sets_).size(), 1u);
  put("one.bin", "12345");
  const std::vector<FileReport> reports = verify_folder(path(""), sets_);
  ASSERT_EQ(reports.size(), 3u);
  EXPECT_EQ(reports[2].set, "batches");
  EXPECT_EQ(reports[2].state, FileState::missing);
  expect_error(ErrorKind::input, {path("absent"), "not a folder"},
               [&] { verify_folder(path("absent"), sets_); });
}

TEST_F(CatalogTest, PublishedSetsAreWellFormed) {
  std::set<std::string> names, hashes;
  for (const DataSet& set : catalog()) {
    EXPECT_TRUE(names.insert(set.name).second);
    EXPECT_EQ(&find_data_set(set.name), &set);
    for (const PublishedFile& file : set.files) {
      EXPECT_GT(file.bytes, 0) << file.name;
      EXPECT_EQ(std::filesystem::path(file.name).filename().string(), file.name);
      for (const std::string& source : file.sources)
        EXPECT_TRUE(source.starts_with("https://")) << source;
      EXPECT_FALSE(file.sources.empty());
      const auto is_hash = [](const std::string& hash, size_t digits) {
        return hash.size() == digits &&
               hash.find_first_not_of("0123456789abcdef") == std::string::npos;
      };
      EXPECT_TRUE(file.sha256.empty() ||
                  (is_hash(file.sha256, 64) && hashes.insert(file.sha256).second))
          << file.name;
      for (const UnpackedFile& content : file.unpacked) {
        EXPECT_GT(content.bytes, 0);
        EXPECT_TRUE(content.md5.empty() ||
                    (is_hash(content.md5, 32) && hashes.insert(content.md5).second));
      }
    }
  }
  expect_error(ErrorKind::usage, {"'mnits'", "mnist, cifar10, tinyshakespeare, enwik8, text8"},
               [] { find_data_set("mnits"); });
}

}  // namespace
}  // namespace linea
