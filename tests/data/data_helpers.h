// A folder that lives as long as a test, and errors that must say certain things.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <initializer_list>
#include <string>

#include "data/files.h"
#include "tensor/error.h"

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
    write_file_atomically(folder_ / name, bytes);
    return path(name);
  }

 private:
  std::filesystem::path folder_;
};

// The message must be one line and hold every fragment.
template <typename Action>
void expect_error(ErrorKind kind, std::initializer_list<std::string> fragments, Action action) {
  try {
    action();
  } catch (const Error& error) {
    const std::string message = error.what();
    EXPECT_EQ(error.kind(), kind) << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    for (const std::string& fragment : fragments)
      EXPECT_NE(message.find(fragment), std::string::npos)
          << "'" << fragment << "' is not in: " << message;
    return;
  }
  ADD_FAILURE() << "no error";
}

}  // namespace linea
