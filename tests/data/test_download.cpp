#include "data/download.h"

#include <algorithm>
#include <cstdlib>

#include "tests/data/data_helpers.h"

namespace linea {
namespace {

namespace fs = std::filesystem;

const std::string kBytes = "the published bytes";

class DownloadTest : public DataTest {
 protected:
  DataSet set_{"words",
               "a text",
               "text",
               {{"words.txt",
                 static_cast<int64_t>(kBytes.size()),
                 hash_bytes(kBytes),
                 {"https://first/words.txt", "https://second/words.txt"}}}};
  std::vector<std::string> asked_, notes_;

  std::string target() const { return path("new/words.txt"); }
  std::string part() const { return path("new/.tmp-words.txt"); }

  void get(const std::function<DownloadResult(const std::string&, const fs::path&)>& fetch) {
    get_data_set(
        set_, path("new"),
        [&](const std::string& address, const fs::path& file, int64_t max_bytes) {
          EXPECT_EQ(max_bytes, static_cast<int64_t>(kBytes.size()));
          EXPECT_EQ(file.string(), part());
          asked_.push_back(address);
          return fetch(address, file);
        },
        [&](const std::string& note) { notes_.push_back(note); });
  }

  // Adds what a server that gives `bytes` would to what is there, at most `most` of them.
  static DownloadResult serve(const fs::path& file, const std::string& bytes, size_t max = 1000) {
    std::error_code absent;
    const uintmax_t size = fs::file_size(file, absent);
    const size_t start = absent ? 0 : static_cast<size_t>(size);
    std::ofstream out(file, std::ios::binary | std::ios::app);
    out << bytes.substr(std::min(start, bytes.size()), max);
    return {};
  }
};

const DownloadResult kFailed{DownloadEnd::failed, "no network"};

TEST_F(DownloadTest, FetchesComparesAndRenames) {
  get([](const std::string&, const fs::path& file) { return serve(file, kBytes); });
  EXPECT_EQ(read_file(target()), kBytes);
  EXPECT_FALSE(fs::exists(part()));
  EXPECT_EQ(asked_, (std::vector<std::string>{"https://first/words.txt"}));
  get([](const std::string&, const fs::path&) {
    return kFailed;
  });  // it is there: nothing is asked for
  EXPECT_EQ(asked_.size(), 1u);
}

TEST_F(DownloadTest, ContinuesAPartialDownload) {
  bool cut = true;
  const auto slow = [&](const std::string&, const fs::path& file) {
    serve(file, kBytes, 7);
    return cut ? kFailed : DownloadResult{};
  };
  expect_error(ErrorKind::input,
               {"no network", "https://first/words.txt or https://second/words.txt",
                hash_bytes(kBytes), path("new")},
               [&] { get(slow); });
  EXPECT_EQ(read_file(part()), kBytes.substr(0, 14));  // seven from each source
  EXPECT_FALSE(fs::exists(target()));
  cut = false;
  get(slow);
  EXPECT_EQ(read_file(target()), kBytes);
}

TEST_F(DownloadTest, AWrongPartIsFetchedAgain) {
  fs::create_directories(path("new"));
  for (const std::string wrong : {"THE pub", "longer than the published bytes are"}) {
    put("new/.tmp-words.txt", wrong);
    get([](const std::string&, const fs::path& file) { return serve(file, kBytes); });
    EXPECT_EQ(read_file(target()), kBytes);
    fs::remove(target());
  }
}

TEST_F(DownloadTest, AServerWithoutRangesGivesTheWholeFile) {
  fs::create_directories(path("new"));
  put("new/.tmp-words.txt", kBytes.substr(0, 4));
  get([](const std::string&, const fs::path& file) {
    return fs::exists(file) ? DownloadResult{DownloadEnd::no_resume, "whole only"}
                            : serve(file, kBytes);
  });
  EXPECT_EQ(read_file(target()), kBytes);
}

TEST_F(DownloadTest, WrongBytesNeverGetTheName) {
  std::string other = kBytes;
  other[3] = 'X';
  expect_error(ErrorKind::input, {hash_bytes(other), hash_bytes(kBytes), "by hand"}, [&] {
    get([&](const std::string&, const fs::path& file) { return serve(file, other); });
  });
  EXPECT_EQ(asked_,
            (std::vector<std::string>{"https://first/words.txt", "https://second/words.txt"}));
  EXPECT_FALSE(fs::exists(target()));
  EXPECT_FALSE(fs::exists(part()));
  get([&](const std::string& address, const fs::path& file) {
    return serve(file, address == "https://second/words.txt" ? kBytes : other);
  });
  EXPECT_EQ(read_file(target()), kBytes);
}

TEST_F(DownloadTest, ManualDownloadsAreVerified) {
  fs::create_directories(path("new"));
  put("new/words.txt", "other bytes");
  expect_error(ErrorKind::input,
               {target(), hash_bytes("other bytes"), hash_bytes(kBytes), "remove it"},
               [&] { get([](const std::string&, const fs::path&) { return kFailed; }); });
  EXPECT_TRUE(asked_.empty());
}

TEST_F(DownloadTest, AFullDiskIsAWriteError) {
  expect_error(ErrorKind::write, {part(), "no room"}, [&] {
    get([](const std::string&, const fs::path&) {
      return DownloadResult{DownloadEnd::unwritable, "no room"};
    });
  });
  put("file", "");
  expect_error(ErrorKind::write, {path("file")},
               [&] { get_data_set(set_, path("file"), {}, [](const std::string&) {}); });
}

// A stand-in for curl, first in PATH.
class CurlTest : public DownloadTest {
 protected:
  void stand_in(const std::string& script) {
    fs::create_directories(path("bin"));
    put("bin/curl", "#!/bin/sh\n" + script);
    fs::permissions(path("bin/curl"), fs::perms::owner_all);
    setenv("PATH", (path("bin") + ":" + old_path_).c_str(), 1);
  }
  ~CurlTest() override { setenv("PATH", old_path_.c_str(), 1); }

  std::string old_path_ = std::getenv("PATH");
};

TEST_F(CurlTest, RunsWithoutAShell) {
  stand_in("for word; do echo \"$word\"; done > " + path("words") + "\ncat > " + path("input") +
           "\n");
  const std::string address = "https://there/$(touch hacked);a b";
  EXPECT_EQ(download_by_curl(address, path("a b"), 77).end, DownloadEnd::done);
  const std::string words = read_file(path("words"));
  EXPECT_TRUE(words.starts_with("--disable\n")) << words;
  for (const std::string needed : {"--proto\n=https\n", "--proto-redir\n=https\n", "--fail\n",
                                   "--location\n", "--max-filesize\n77\n", "--continue-at\n-\n"})
    EXPECT_NE(words.find("\n" + needed), std::string::npos) << needed << " is not in " << words;
  EXPECT_TRUE(words.ends_with("--output\n" + path("a b") + "\n--url\n" + address + "\n")) << words;
  EXPECT_EQ(read_file(path("input")), "");
}

TEST_F(CurlTest, ReportsItsExitStatus) {
  const auto end_of = [&](const std::string& script) {
    stand_in(script);
    return download_by_curl("https://there", path("out"), 1).end;
  };
  EXPECT_EQ(end_of("exit 0"), DownloadEnd::done);
  EXPECT_EQ(end_of("exit 6"), DownloadEnd::failed);
  EXPECT_EQ(end_of("exit 23"), DownloadEnd::unwritable);
  EXPECT_EQ(end_of("exit 33"), DownloadEnd::no_resume);
  EXPECT_EQ(end_of("kill -9 $$"), DownloadEnd::failed);
  fs::remove(path("bin/curl"));
  setenv("PATH", path("bin").c_str(), 1);
  const DownloadResult result = download_by_curl("https://there", path("out"), 1);
  EXPECT_EQ(result.end, DownloadEnd::failed);
  EXPECT_NE(result.problem.find("install curl"), std::string::npos);
}

}  // namespace
}  // namespace linea
