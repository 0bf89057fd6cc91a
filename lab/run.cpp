#include "lab/run.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <sstream>

#include "base/error.h"
#include "base/system.h"
#include "data/files.h"
#include "train/timing.h"

extern char** environ;

namespace linea::lab {
namespace {

void write_missing_files(const std::vector<std::string>& words) {
  for (const LessonFile& file : kLessonFiles) {
    const std::filesystem::path path = "lessons/" + file.name;
    if (std::find(words.begin(), words.end(), path) == words.end() || std::filesystem::exists(path))
      continue;
    make_folders(path.parent_path());
    write_file_atomically(path, file.text);
    fmt::print(stderr, "linea: {} was written: change it and run the command again\n",
               path.string());
  }
}

// The read end of a pipe to a started program.
class Process {
 public:
  explicit Process(std::vector<std::string> words) {
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    std::array<int, 2> ends{};
    if (open_pipe(ends) != 0) fail_start(errno);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    const int error =
        posix_spawn(&child_, program_file().c_str(), &actions, nullptr, arguments.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    end_ = ends[0];
    if (error != 0) {
      close(end_);
      fail_start(error);
    }
  }

  std::string read_all() const {
    std::string text;
    std::array<char, 4096> bytes{};
    for (ssize_t count; (count = read(end_, bytes.data(), bytes.size())) != 0;) {
      if (count < 0 && errno != EINTR) break;
      if (count > 0) text.append(bytes.data(), static_cast<size_t>(count));
    }
    close(end_);
    return text;
  }

  // 128 + the signal where one ended it
  int wait() const {
    int status = 0;
    while (waitpid(child_, &status, 0) < 0 && errno == EINTR) {
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

 private:
  [[noreturn]] static void fail_start(int error) {
    fail(ErrorKind::input, "this program could not be started again: {}", std::strerror(error));
  }

  pid_t child_ = -1;
  int end_ = -1;
};

}  // namespace

Output run_command(const std::string& command) {
  std::istringstream stream(command);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return run_words(words);
}

Output run_words(const std::vector<std::string>& words) {
  write_missing_files(words);
  const Stopwatch watch;
  const Process process(words);
  Output output;
  output.text = process.read_all();
  output.exit_code = process.wait();
  output.seconds = watch.seconds();
  return output;
}

}  // namespace linea::lab
