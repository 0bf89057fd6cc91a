// Published data sets: what their files are called, where they are, how many bytes they have, by
// which checksums they are known. A checksum that nobody published is left empty, and what is known
// is compared instead.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "data/hash.h"

namespace linea {

// A file that an archive holds, under the name it has when it is unpacked.
struct UnpackedFile {
  std::string name;
  int64_t bytes = 0;
  std::string md5 = {};  // empty: only the size is known
};

struct PublishedFile {
  std::string name;
  int64_t bytes = 0;                        // 0: not known
  std::string sha256 = {};                  // empty: not known
  std::vector<std::string> sources;         // addresses, each of the whole file
  std::vector<UnpackedFile> unpacked = {};  // empty: it is no archive
};

struct DataSet {
  std::string name, about, task;
  std::vector<PublishedFile> files;
};

const std::vector<DataSet>& catalog();

// Error: an unknown name, with those that there are.
const DataSet& find_data_set(const std::string& name);

// `unproved`: the size is right, and more is not known.
enum class FileState { ok, unproved, differs, missing };
const char* state_name(FileState state);

struct FileReport {
  std::string set = {}, file = {};
  FileState state = FileState::missing;
  std::string by = {};  // what was compared: "sha256", "md5 of its content", "size", ..
  std::string expected = {}, found = {};  // where the state is `differs`
};

// A published file in a folder. The same bytes are ok, so are other bytes that unpack to the same,
// and so is what was unpacked from it, which has a line for each file.
std::vector<FileReport> check_file(const DataSet& set, const PublishedFile& file,
                                   const std::filesystem::path& folder);

// Every file of every set of which the folder holds one. Error: ErrorKind::input where there is
// none.
std::vector<FileReport> verify_folder(const std::filesystem::path& folder,
                                      const std::vector<DataSet>& sets = catalog());

}  // namespace linea
