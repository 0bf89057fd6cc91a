// The built program as a child process: what scripts see of it. Each test has a folder of its own,
// in which the program runs. What a test of it does is in program.cpp, compiled once.
#pragma once

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <fstream>
#include <functional>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "data/hash.h"
#include "data/json.h"
#include "tests/data/data_helpers.h"
#include "tests/sanitized.h"

namespace linea {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

struct Outcome {
  int code = -1;  // 128 + the signal where one ended it
  std::string out, err;
};

Words operator+(Words words, const Words& more);
Words words_of(const std::string& line);
Words lines_of(const std::string& text);

// A program that runs. stdout and stderr go to files, so that nothing here can block it.
class Child {
 public:
  // `file_limit`: bytes that a file may grow to, 0: any. `out`: where stdout goes, "" : a file that
  // wait() reads.
  Child(const fs::path& folder, const Words& arguments, rlim_t file_limit = 0,
        const std::string& out = "");
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  void signal(int number) const { kill(pid_, number); }
  void lift_file_limit() const;
  Outcome wait();

 private:
  fs::path out_, err_;
  pid_t pid_ = -1;
};

class ProgramTest : public DataTest {
 protected:
  Outcome linea(const Words& arguments, rlim_t file_limit = 0) const;
  Outcome linea(const std::string& line) const { return linea(words_of(line)); }

  // Must succeed.
  Outcome done(const Words& arguments) const;
  Outcome done(const std::string& line) const { return done(words_of(line)); }

  // Must fail with this code and one line that holds every fragment; nothing else on stderr, unless
  // progress was shown `after_progress`.
  void refused(int code, const Words& arguments, std::initializer_list<std::string> fragments,
               bool after_progress = false) const;
  void refused(int code, const std::string& line, std::initializer_list<std::string> fragments,
               bool after_progress = false) const {
    refused(code, words_of(line), fragments, after_progress);
  }
  static void check_refusal(const Outcome& outcome, int code, const std::string& what,
                            std::initializer_list<std::string> fragments,
                            bool after_progress = false);

  bool exists(const std::string& name) const { return fs::exists(path(name)); }
  std::string bytes(const std::string& name) const { return read_file(path(name)); }
  void copy(const std::string& from, const std::string& to) const;
  void remove(const std::string& name) const;
  // Names in a folder, sorted.
  std::vector<std::string> names_in(const std::string& folder) const;

  std::vector<nlohmann::json> metrics(const std::string& run) const {
    return json_lines(bytes(run + "/metrics.jsonl"));
  }
  static std::vector<nlohmann::json> json_lines(const std::string& text);
  // Without what a clock or the memory says.
  std::vector<nlohmann::json> repeatable_metrics(const std::string& run) const;

  void expect_same_checkpoint(const std::string& one, const std::string& other, int step) const;
  // Makes the manifest of a checkpoint that a test changed agree with its files again.
  void seal(const std::string& folder) const;

  // A text of `count` tokens: a, b, c, d, e with an accent, blanks and line ends.
  std::string put_text(const std::string& name, int count) const;
};

inline const std::string kSmall = " --layers 1 --heads 2 --dim 16 --ffn 32 --batch 2";
inline const std::string kDigits20000 = "train --task digits --size 12 --levels 4" + kSmall;
inline const std::string kDigits = kDigits20000 + " --examples 200";
inline const int64_t kDigitsVal = kSanitized ? 100 : 1000;  // rows, data/tasks/digits.cpp
inline const std::string kCopy = "train --task copy --length 16" + kSmall;
inline const std::string kText = "train --task text --data text.txt --length 16" + kSmall;

}  // namespace linea

// How GoogleTest shows JSON that is not as expected.
namespace nlohmann {
void PrintTo(const json& document, std::ostream* out);
}
