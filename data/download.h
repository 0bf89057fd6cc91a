// Downloads, by the program curl, started without a shell; https only, redirects included.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "data/catalog.h"

namespace linea {

enum class DownloadEnd {
  done,
  failed,      // no network, no such file, no curl
  no_resume,   // the server does not support resuming
  unwritable,  // the disk or folder cannot be written
};

struct DownloadResult {
  DownloadEnd end = DownloadEnd::done;
  std::string problem;  // one line, unless done
};

// Downloads a URL to a file, at most `max_bytes`; resumes from the bytes that the file has.
using Download = std::function<DownloadResult(
    const std::string& url, const std::filesystem::path& file, int64_t max_bytes)>;

// Runs curl from PATH, which writes its progress to stderr.
DownloadResult download_by_curl(const std::string& url, const std::filesystem::path& file,
                                int64_t max_bytes);

// Downloads the files of a set that are missing from the folder, each under a temporary name
// ".tmp-...", from which the next attempt resumes; it is renamed once its checksum is verified.
// Existing files are verified. `note` gets a line for each step. A folder that stays empty is
// removed again if it was created here. Errors: ErrorKind::input where a file cannot be downloaded
// or differs, with what to fetch by hand; ErrorKind::write where the folder cannot be written.
void get_data_set(const DataSet& set, const std::filesystem::path& folder, const Download& download,
                  const std::function<void(const std::string&)>& note);

}  // namespace linea
