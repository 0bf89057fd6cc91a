#include "data/download.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>

#include "base/error.h"
#include "data/disk.h"
#include "data/files.h"

extern char** environ;

namespace linea {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMaxUnknown = int64_t{1} << 30;  // bytes of a file of unpublished size
constexpr int kNotFound = 127;  // exit code of a program that could not be started
constexpr int kCurlCannotWrite = 23, kCurlNoRange = 33, kCurlBadResume = 36;

// Runs a program from PATH with an empty stdin. Returns its exit code, kNotFound where it cannot be
// started, or 128 + the signal that ended it.
int run_program(std::vector<std::string> words) {
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  pid_t child = 0;
  const int problem =
      posix_spawnp(&child, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (problem != 0) return kNotFound;
  int status = 0;
  while (waitpid(child, &status, 0) < 0)
    if (errno != EINTR) return kNotFound;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int64_t size_or_zero(const fs::path& path) {
  std::error_code absent;
  const uintmax_t size = fs::file_size(path, absent);
  return absent ? 0 : static_cast<int64_t>(size);
}

// "fetch URL (N bytes, sha256 ...) by hand ...", for a failed download.
std::string manual_instructions(const PublishedFile& file, const fs::path& folder) {
  return fmt::format("fetch {} ({} bytes, {}) by hand, put it into {} and run this again",
                     fmt::join(file.sources, " or "), file.bytes,
                     file.sha256.empty() ? "no published sha256" : "sha256 " + file.sha256,
                     folder.string());
}

// How a downloaded file differs from the published one; empty where it does not.
std::string difference(const DataSet& set, const PublishedFile& file, const fs::path& path) {
  if (!file.sha256.empty()) {
    const std::string hash = hash_file(path);
    return hash == file.sha256 ? ""
                               : fmt::format("has sha256 {}, published is {}", hash, file.sha256);
  }
  const int64_t bytes = plain_file_size(path);
  return file.bytes == 0 || bytes == file.bytes
             ? ""
             : fmt::format("has {} bytes, the published file of {} has {}", bytes, set.name,
                           file.bytes);
}

void rename_download(const fs::path& partial, const fs::path& folder, const std::string& name) {
  if (const int reason = disk::rename(partial, folder / name))
    fail(ErrorKind::write, "{}: cannot be renamed to {}: {}", partial.string(), name,
         std::strerror(reason));
  if (const int reason = disk::flush_folder(folder))
    fail(ErrorKind::write, "{}: cannot be flushed to the disk: {}", folder.string(),
         std::strerror(reason));
}

// A partial file of an earlier attempt that turns out wrong is removed once, and the file
// downloaded from the start.
void get_file(const DataSet& set, const PublishedFile& file, const fs::path& folder,
              const Download& download, const std::function<void(const std::string&)>& note) {
  const fs::path partial = folder / (".tmp-" + file.name);
  const int64_t limit = file.bytes > 0 ? file.bytes : kMaxUnknown;
  std::string problem;
  for (const std::string& source : file.sources)
    for (int attempt = 0; attempt < 2; ++attempt) {
      const bool has_partial = size_or_zero(partial) > 0;
      if (size_or_zero(partial) < limit) {
        note(fmt::format("{} {}", has_partial ? "resuming" : "downloading", source));
        const DownloadResult result = download(source, partial, limit);
        if (result.end == DownloadEnd::unwritable)
          fail(ErrorKind::write,
               "{}: cannot be written: {}; free some space or choose another folder",
               partial.string(), result.problem);
        problem = source + ": " + result.problem;
        if (result.end == DownloadEnd::failed)
          break;  // the partial file stays for the next attempt
        if (result.end == DownloadEnd::no_resume) {
          disk::remove(partial);
          continue;
        }
      }
      const std::string wrong = difference(set, file, partial);
      if (wrong.empty()) return rename_download(partial, folder, file.name);
      problem = source + ": the download " + wrong;
      disk::remove(partial);
      if (!has_partial) break;  // not resumed: try the next source
    }
  fail(ErrorKind::input, "{}; {}", problem, manual_instructions(file, folder));
}

void get_files(const DataSet& set, const fs::path& folder, const Download& download,
               const std::function<void(const std::string&)>& note) {
  for (const PublishedFile& file : set.files) {
    bool missing = false;
    for (const FileReport& report : check_file(set, file, folder)) {
      if (report.state == FileState::differs)
        fail(ErrorKind::input, "{}: {} is {}, published is {}; remove it and run this again",
             (folder / report.file).string(), report.criterion, report.found, report.expected);
      missing = missing || report.state == FileState::missing;
      if (report.state == FileState::ok || report.state == FileState::unverified)
        note(fmt::format("{} is present ({})", report.file, report.criterion));
    }
    if (!missing) continue;
    get_file(set, file, folder, download, note);
    for (const FileReport& report : check_file(set, file, folder))
      if (report.state == FileState::differs || report.state == FileState::missing)
        fail(ErrorKind::input, "{}: {} is {}, published is {}; remove it and run this again",
             (folder / report.file).string(), report.criterion, report.found, report.expected);
    note(fmt::format("{} is present", file.name));
  }
}

// Folders that do not exist yet, the innermost first.
std::vector<fs::path> missing_folders(fs::path folder) {
  std::vector<fs::path> missing;
  std::error_code ignored;
  for (; !folder.empty() && !fs::exists(folder, ignored); folder = folder.parent_path())
    missing.push_back(folder);
  return missing;
}

}  // namespace

DownloadResult download_by_curl(const std::string& url, const fs::path& file, int64_t max_bytes) {
  const bool show_progress = isatty(STDERR_FILENO) != 0;
  std::vector<std::string> words{"curl",
                                 "--disable",
                                 "--proto",
                                 "=https",
                                 "--proto-redir",
                                 "=https",
                                 "--fail",
                                 "--location",
                                 "--max-redirs",
                                 "5",
                                 "--connect-timeout",
                                 "20",
                                 "--speed-limit",
                                 "1",
                                 "--speed-time",
                                 "60",
                                 "--max-filesize",
                                 std::to_string(max_bytes),
                                 "--continue-at",
                                 "-",
                                 "--show-error",
                                 show_progress ? "--progress-bar" : "--silent",
                                 "--output",
                                 fs::absolute(file).string(),
                                 "--url",
                                 url};
  const int status = run_program(std::move(words));
  if (status == 0) return {};
  if (status == kNotFound)
    return {DownloadEnd::failed, "the program curl could not be started; install curl"};
  if (status == kCurlCannotWrite) return {DownloadEnd::unwritable, "curl could not write"};
  if (status == kCurlNoRange || status == kCurlBadResume)
    return {DownloadEnd::no_resume, "the server does not support resuming"};
  if (status > 128)
    return {DownloadEnd::failed, fmt::format("curl was ended by signal {}", status - 128)};
  return {DownloadEnd::failed,
          fmt::format("curl failed with error {} (its message is above)", status)};
}

void get_data_set(const DataSet& set, const fs::path& folder, const Download& download,
                  const std::function<void(const std::string&)>& note) {
  const std::vector<fs::path> created = missing_folders(folder);
  try {
    make_folders(folder);
    get_files(set, folder, download, note);
  } catch (...) {
    std::error_code ignored;  // of folders that hold something
    for (const fs::path& path : created) fs::remove(path, ignored);
    throw;
  }
}

}  // namespace linea
