// A folder that lives as long as a test.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "data/files.h"
#include "tests/expect_error.h"

namespace linea {

class DataTest : public testing::Test {
 protected:
  DataTest()
      : folder_(std::filesystem::temp_directory_path() /
                fmt::format("linea-data-{}-{}", getpid(),
                            testing::UnitTest::GetInstance()->current_test_info()->name())) {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  ~DataTest() override { std::filesystem::remove_all(folder_); }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  std::string put(const std::string& name, std::string_view bytes) const {
    std::ofstream file(folder_ / name,
                       std::ios::binary);  // without a flush to the disk, which takes long
    file << bytes;
    EXPECT_TRUE(file.flush()) << name;
    return path(name);
  }

 private:
  std::filesystem::path folder_;
};

}  // namespace linea
