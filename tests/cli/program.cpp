#include "tests/cli/program.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace linea {

Words operator+(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

Words words_of(const std::string& line) {
  std::istringstream stream(line);
  Words words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

Words lines_of(const std::string& text) {
  std::istringstream stream(text);
  Words lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// ---- the program ----

Child::Child(const fs::path& folder, const Words& arguments, rlim_t file_limit,
             const std::string& out)
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
  for (const int number : {SIGHUP, SIGINT})
    std::signal(number, SIG_DFL);  // which a script with tests in its background ignores
  alarm(LINEA_PROGRAM_SECONDS);    // a program that hangs is a failure, not a wait
  execv(argv[0], argv.data());
  _exit(127);
}

Child::~Child() {
  if (pid_ > 0) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
}

void Child::lift_file_limit() const {
  const rlimit none{RLIM_INFINITY, RLIM_INFINITY};
  prlimit(pid_, RLIMIT_FSIZE, &none, nullptr);
}

Outcome Child::wait() {
  int status = 0;
  waitpid(pid_, &status, 0);
  pid_ = -1;
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  std::error_code error;
  return {code, fs::exists(out_, error) ? read_file(out_) : "", read_file(err_)};
}

Outcome ProgramTest::linea(const Words& arguments, rlim_t file_limit) const {
  return Child(path(""), arguments, file_limit).wait();
}

Outcome ProgramTest::done(const Words& arguments) const {
  const Outcome outcome = linea(arguments);
  EXPECT_EQ(outcome.code, 0) << testing::PrintToString(arguments) << "\n" << outcome.err;
  return outcome;
}

void ProgramTest::refused(int code, const Words& arguments,
                          std::initializer_list<std::string> fragments, bool after_progress) const {
  check_refusal(linea(arguments), code, testing::PrintToString(arguments), fragments,
                after_progress);
}

void ProgramTest::check_refusal(const Outcome& outcome, int code, const std::string& what,
                                std::initializer_list<std::string> fragments, bool after_progress) {
  SCOPED_TRACE(what);
  EXPECT_EQ(outcome.code, code) << outcome.err;
  EXPECT_EQ(outcome.err.empty() ? '\0' : outcome.err.back(), '\n');
  const Words lines = lines_of(outcome.err);
  ASSERT_FALSE(lines.empty());
  EXPECT_TRUE(after_progress || lines.size() == 1) << outcome.err;
  EXPECT_EQ(lines.back().rfind("linea: ", 0), 0u) << outcome.err;
  for (const std::string& fragment : fragments)
    EXPECT_NE(lines.back().find(fragment), std::string::npos)
        << "'" << fragment << "' is not in: " << lines.back();
}

// ---- files ----

void ProgramTest::copy(const std::string& from, const std::string& to) const {
  fs::copy(path(from), path(to), fs::copy_options::recursive);
}

void ProgramTest::remove(const std::string& name) const {
  EXPECT_GT(fs::remove_all(path(name)), 0u) << name;
}

std::vector<std::string> ProgramTest::names_in(const std::string& folder) const {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(path(folder)))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<nlohmann::json> ProgramTest::json_lines(const std::string& text) {
  std::vector<nlohmann::json> records;
  for (const std::string& line : lines_of(text)) {
    records.push_back(parse_json(line));
    EXPECT_TRUE(records.back().is_object()) << line;
  }
  return records;
}

std::vector<nlohmann::json> ProgramTest::repeatable_metrics(const std::string& run) const {
  std::vector<nlohmann::json> records = metrics(run);
  for (nlohmann::json& record : records)
    for (const char* key : {"tokens_per_s", "elapsed_s", "peak_bytes"}) record.erase(key);
  return records;
}

void ProgramTest::expect_same_checkpoint(const std::string& one, const std::string& other,
                                         int step) const {
  const std::string folder = fmt::format("/checkpoints/step-{:08}/", step);
  for (const char* file : {"model.safetensors", "optimizer.safetensors", "state.json"})
    EXPECT_TRUE(bytes(one + folder + file) == bytes(other + folder + file))
        << file << " of " << one << " and " << other;
}

void ProgramTest::seal(const std::string& folder) const {
  nlohmann::json manifest = parse_json(bytes(folder + "/manifest.json"));
  for (nlohmann::json& file : manifest["files"]) {
    const std::string content = bytes(folder + "/" + file["name"].get<std::string>());
    file["size"] = content.size();
    file["sha256"] = hash_bytes(content);
  }
  put(folder + "/manifest.json", dump_json(manifest));
}

std::string ProgramTest::put_text(const std::string& name, int count) const {
  const char* tokens[] = {"a", "b", "c", "d", "\xC3\xA9", " ", "\n"};
  std::string text;
  uint32_t state = 12345;
  for (int i = 0; i < count; ++i) {
    state = state * 1664525u + 1013904223u;
    text += tokens[(state >> 24) % 7];
  }
  return put(name, text);
}

}  // namespace linea

void nlohmann::PrintTo(const json& document, std::ostream* out) {
  *out << linea::dump_json(document);
}
