// Published data sets: names, sources, sizes and checksums of their files. Where no checksum is
// published, the size is compared.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "data/hash.h"

namespace linea {

// A file inside an archive, by its name when unpacked.
struct UnpackedFile {
  std::string name;
  int64_t bytes = 0;
  std::string md5 = {};  // empty: unknown
};

struct PublishedFile {
  std::string name;
  int64_t bytes = 0;                        // 0: unknown
  std::string sha256 = {};                  // empty: unknown
  std::vector<std::string> sources;         // URLs, each of the complete file
  std::vector<UnpackedFile> unpacked = {};  // empty: not an archive
};

struct DataSet {
  std::string name, about, task;
  std::vector<PublishedFile> files;
};

const std::vector<DataSet>& catalog();

// Error: an unknown name, with the known ones.
const DataSet& find_data_set(const std::string& name);

// unverified: the size is right, and no checksum is known.
enum class FileState { ok, unverified, differs, missing };
const char* to_string(FileState state);

struct FileReport {
  std::string set = {}, file = {};
  FileState state = FileState::missing;
  std::string criterion = {};  // the property compared: "sha256", "md5 of its content", "size", ...
  std::string expected = {}, found = {};  // where the state is differs
};

// Verifies a published file in a folder. The same bytes are ok, other bytes that unpack to the same
// content, and the unpacked content, with a report for each file.
std::vector<FileReport> check_file(const DataSet& set, const PublishedFile& file,
                                   const std::filesystem::path& folder);

// Verifies every file of every set of which the folder has at least one. Error: ErrorKind::input
// where it has none.
std::vector<FileReport> verify_folder(const std::filesystem::path& folder,
                                      const std::vector<DataSet>& sets = catalog());

}  // namespace linea
