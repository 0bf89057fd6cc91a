// The built program as a child process: what scripts see of it. Each test has a folder of its own, in which
// the program runs.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

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

inline Words operator+(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

inline Words words_of(const std::string& line) {
  std::istringstream stream(line);
  Words words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

inline Words lines_of(const std::string& text) {
  std::istringstream stream(text);
  Words lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// A program that runs. stdout and stderr go to files, so that nothing here can block it.
class Child {
 public:
  // `file_limit`: bytes that a file may grow to, 0: any. `out`: where stdout goes, "" : a file that wait() reads.
  Child(const fs::path& folder, const Words& arguments, rlim_t file_limit = 0, const std::string& out = "")
      : out_(folder / ".stdout"), err_(folder / ".stderr") {
    Words words = Words{LINEA_PROGRAM} + arguments;
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    pid_ = fork();
    if (pid_ != 0) return;
    const auto redirect = [](const char* path, int flags, int to) {
      const int descriptor = open(path, flags | O_CLOEXEC, 0666);
      if (descriptor < 0 || dup2(descriptor, to) < 0) _exit(126);
    };
    redirect("/dev/null", O_RDONLY, STDIN_FILENO);
    redirect(out.empty() ? out_.c_str() : out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, STDOUT_FILENO);
    redirect(err_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, STDERR_FILENO);
    if (chdir(folder.c_str()) != 0) _exit(126);
    if (file_limit > 0) {
      const rlimit limit{file_limit, RLIM_INFINITY};  // its user can lift it again
      setrlimit(RLIMIT_FSIZE, &limit);
    }
    alarm(100);  // a program that hangs is a failure, not a wait
    execv(argv[0], argv.data());
    _exit(127);
  }
  ~Child() {
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  void signal(int number) const { kill(pid_, number); }
  void lift_file_limit() const {
    const rlimit none{RLIM_INFINITY, RLIM_INFINITY};
    prlimit(pid_, RLIMIT_FSIZE, &none, nullptr);
  }

  Outcome wait() {
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = -1;
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    std::error_code error;
    return {code, fs::exists(out_, error) ? read_file(out_) : "", read_file(err_)};
  }

 private:
  fs::path out_, err_;
  pid_t pid_ = -1;
};

class ProgramTest : public DataTest {
 protected:
  Outcome linea(const Words& arguments, rlim_t file_limit = 0) const {
    return Child(path(""), arguments, file_limit).wait();
  }
  Outcome linea(const std::string& line) const { return linea(words_of(line)); }

  // Must succeed.
  Outcome done(const Words& arguments) const {
    const Outcome outcome = linea(arguments);
    EXPECT_EQ(outcome.code, 0) << testing::PrintToString(arguments) << "\n" << outcome.err;
    return outcome;
  }
  Outcome done(const std::string& line) const { return done(words_of(line)); }

  // Must fail with this code and one line that holds every fragment; nothing else on stderr, unless
  // progress was shown `after_progress`.
  void refused(int code, const Words& arguments, std::initializer_list<std::string> fragments,
               bool after_progress = false) const {
    check_refusal(linea(arguments), code, testing::PrintToString(arguments), fragments, after_progress);
  }
  void refused(int code, const std::string& line, std::initializer_list<std::string> fragments,
               bool after_progress = false) const {
    refused(code, words_of(line), fragments, after_progress);
  }

  static void check_refusal(const Outcome& outcome, int code, const std::string& what,
                            std::initializer_list<std::string> fragments, bool after_progress = false) {
    SCOPED_TRACE(what);
    EXPECT_EQ(outcome.code, code) << outcome.err;
    EXPECT_EQ(outcome.err.empty() ? '\0' : outcome.err.back(), '\n');
    const Words lines = lines_of(outcome.err);
    ASSERT_FALSE(lines.empty());
    EXPECT_TRUE(after_progress || lines.size() == 1) << outcome.err;
    EXPECT_EQ(lines.back().rfind("linea: ", 0), 0u) << outcome.err;
    for (const std::string& fragment : fragments)
      EXPECT_NE(lines.back().find(fragment), std::string::npos) << "'" << fragment << "' is not in: " << lines.back();
  }

  bool exists(const std::string& name) const { return fs::exists(path(name)); }
  std::string bytes(const std::string& name) const { return read_file(path(name)); }
  void copy(const std::string& from, const std::string& to) const {
    fs::copy(path(from), path(to), fs::copy_options::recursive);
  }
  void remove(const std::string& name) const { EXPECT_GT(fs::remove_all(path(name)), 0u) << name; }

  // Names in a folder, sorted.
  std::vector<std::string> names_in(const std::string& folder) const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(path(folder))) names.push_back(entry.path().filename().string());
    std::sort(names.begin(), names.end());
    return names;
  }

  std::vector<nlohmann::json> metrics(const std::string& run) const { return json_lines(bytes(run + "/metrics.jsonl")); }

  static std::vector<nlohmann::json> json_lines(const std::string& text) {
    std::vector<nlohmann::json> records;
    for (const std::string& line : lines_of(text)) {
      records.push_back(parse_json(line));
      EXPECT_TRUE(records.back().is_object()) << line;
    }
    return records;
  }

  // Without what a clock or the memory says.
  std::vector<nlohmann::json> repeatable_metrics(const std::string& run) const {
    std::vector<nlohmann::json> records = metrics(run);
    for (nlohmann::json& record : records)
      for (const char* key : {"tokens_per_s", "elapsed_s", "peak_bytes"}) record.erase(key);
    return records;
  }

  void expect_same_checkpoint(const std::string& one, const std::string& other, int step) const {
    const std::string folder = fmt::format("/checkpoints/step-{:08}/", step);
    for (const char* file : {"model.safetensors", "optimizer.safetensors", "state.json"})
      EXPECT_TRUE(bytes(one + folder + file) == bytes(other + folder + file)) << file << " of " << one << " and " << other;
  }

  // Makes the manifest of a checkpoint that a test changed agree with its files again.
  void seal(const std::string& folder) const {
    nlohmann::json manifest = parse_json(bytes(folder + "/manifest.json"));
    for (nlohmann::json& file : manifest["files"]) {
      const std::string content = bytes(folder + "/" + file["name"].get<std::string>());
      file["size"] = content.size();
      file["sha256"] = hash_of(content);
    }
    put(folder + "/manifest.json", manifest.dump());
  }

  // A text of `count` symbols: a, b, c, d, e with an accent, blanks and line ends.
  std::string put_text(const std::string& name, int count) const {
    const char* symbols[] = {"a", "b", "c", "d", "\xC3\xA9", " ", "\n"};
    std::string text;
    uint32_t state = 12345;
    for (int i = 0; i < count; ++i) {
      state = state * 1664525u + 1013904223u;
      text += symbols[(state >> 24) % 7];
    }
    return put(name, text);
  }
};

inline const std::string kSmall = " --layers 1 --heads 2 --dim 16 --ffn 32 --batch 2";
inline const std::string kDigits = "train --task digits --size 12 --levels 4" + kSmall;
inline const std::string kCopy = "train --task copy --length 16" + kSmall;
inline const std::string kText = "train --task text --data text.txt --length 16" + kSmall;

}  // namespace linea
