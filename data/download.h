// Files from the network. The program curl does it, started without a shell; only https, also where
// an address leads to another.
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
  no_resume,   // the server gives whole files only
  unwritable,  // the disk or folder takes nothing
};

struct DownloadResult {
  DownloadEnd end = DownloadEnd::done;
  std::string problem;  // one line, where it is not done
};

// Brings an address to a file; what the file holds already is kept and gone on from. At most
// `max_bytes`.
using Download = std::function<DownloadResult(
    const std::string& address, const std::filesystem::path& file, int64_t max_bytes)>;

// Runs curl, found in PATH. It writes its progress to stderr.
DownloadResult download_by_curl(const std::string& address, const std::filesystem::path& file,
                                int64_t max_bytes);

// Brings the files of a set that the folder lacks, each first under a name of its own that starts
// with ".tmp-", where the next try goes on from it; its checksum is compared before it gets its
// name. Files that are there are verified. Tells `note` what it does. Errors: ErrorKind::input
// where a file cannot be had or is another, with what to fetch by hand, ErrorKind::write where the
// folder takes nothing.
void get_data_set(const DataSet& set, const std::filesystem::path& folder, const Download& download,
                  const std::function<void(const std::string&)>& note);

}  // namespace linea
