// What base/system.h promises of any system; the files of control groups are tested in
// tests/tensor/test_memory_report.cpp.
#include "base/system.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <fstream>

namespace linea {
namespace {

namespace fs = std::filesystem;

TEST(System, KnowsItsProgram) {
  ASSERT_FALSE(command_line().empty());
  const fs::path name = fs::path(command_line().front()).filename();
  EXPECT_TRUE(fs::equivalent(program_folder() / name, program_file()));
  EXPECT_FALSE(processor_name().empty());
}

TEST(System, KnowsItsMemory) {
  const SystemMemory machine = installed_memory();
  EXPECT_LT(machine.total, SIZE_MAX);
  EXPECT_LE(machine.available, machine.total);
  EXPECT_GT(machine.available, 0u);
  std::vector<char> block(size_t{64} << 20);
  advise_huge_pages(block.data(), 0);
  std::memset(block.data(), 1, block.size());
  EXPECT_GT(peak_resident_bytes(), block.size());
  EXPECT_LT(peak_resident_bytes(), machine.total);
  EXPECT_GE(count_thread_preemptions(), 0);
}

TEST(System, APipeIsClosedInPrograms) {
  std::array<int, 2> ends{};
  ASSERT_EQ(open_pipe(ends), 0);
  for (const int end : ends) EXPECT_NE(fcntl(end, F_GETFD) & FD_CLOEXEC, 0);
  char byte = 1;
  EXPECT_EQ(write(ends[1], &byte, 1), 1);
  EXPECT_EQ(read(ends[0], &byte, 1), 1);
  for (const int end : ends) close(end);
}

TEST(System, ExchangesFiles) {
  const fs::path folder = fs::temp_directory_path() / ("linea-system-" + std::to_string(getpid()));
  for (const char* name : {"one", "other"}) {
    fs::create_directories(folder / name);
    std::ofstream(folder / name / name) << name;
  }
  const int reason = exchange_files(folder / "one", folder / "other") == 0 ? 0 : errno;
  EXPECT_EQ(fs::exists(folder / "one" / "other"), reason == 0);
  EXPECT_TRUE(reason == 0 || reason == EINVAL || reason == ENOSYS) << std::strerror(reason);
  EXPECT_NE(exchange_files(folder / "one", folder / "missing"), 0);

  const fs::path file = folder / "written";
  const int descriptor = open(file.c_str(), O_WRONLY | O_CREAT, 0666);
  EXPECT_EQ(flush_file(descriptor), 0);
  struct stat facts {};
  ASSERT_EQ(fstat(descriptor, &facts), 0);
  EXPECT_EQ(modification_time(facts).tv_sec, facts.st_mtime);
  EXPECT_LT(modification_time(facts).tv_nsec, 1000000000);
  close(descriptor);
  EXPECT_NE(flush_file(descriptor), 0);
  fs::remove_all(folder);
}

TEST(System, ReadsNumbers) {
  const auto read = [](const std::string& text) {
    double value = -1;
    const auto [end, problem] = read_double(text.data(), text.data() + text.size(), value);
    return problem == std::errc() ? fmt::format("{} {}", value, end - text.data())
           : problem == std::errc::result_out_of_range ? "out of range"
                                                       : "none";
  };
  EXPECT_EQ(read("0.1"), "0.1 3");
  EXPECT_EQ(read("-2.5e-3,"), "-0.0025 7");
  EXPECT_EQ(read("1e+30"), "1e+30 5");
  EXPECT_EQ(read("inf"), "inf 3");
  EXPECT_EQ(read("1e999"), "out of range");
  for (const char* text : {"", "+1", " 1", "\t1", "x", "e5"}) EXPECT_EQ(read(text), "none") << text;
}

}  // namespace
}  // namespace linea
