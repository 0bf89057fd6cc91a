#include "data/catalog.h"

#include <system_error>

#include "base/error.h"
#include "data/files.h"
#include "data/readers/gzip.h"
#include "data/readers/zip.h"

namespace linea {
namespace {

namespace fs = std::filesystem;

PublishedFile mnist_file(const std::string& name, int64_t bytes, const std::string& sha256,
                         int64_t unpacked_bytes, const std::string& unpacked_md5) {
  const std::string archive = name + ".gz";
  return {archive,
          bytes,
          sha256,
          {"https://ossci-datasets.s3.amazonaws.com/mnist/" + archive,
           "https://storage.googleapis.com/cvdf-datasets/mnist/" + archive},
          {{name, unpacked_bytes, unpacked_md5}}};
}

std::vector<DataSet> make_catalog() {
  constexpr int64_t kCifarBatch = 10000 * 3073, kHundredMillion = 100000000;
  const std::string cifar_folder = "cifar-10-batches-bin/";
  std::vector<UnpackedFile> batches;
  for (int number = 1; number <= 5; ++number)
    batches.push_back({fmt::format("{}data_batch_{}.bin", cifar_folder, number), kCifarBatch});
  batches.push_back({cifar_folder + "test_batch.bin", kCifarBatch});
  return {
      {"mnist",
       "handwritten digits, 60,000 and 10,000 gray images of 28 x 28",
       "mnist",
       {mnist_file("train-images-idx3-ubyte", 9912422,
                   "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609", 47040016,
                   "6bbc9ace898e44ae57da46a324031adb"),
        mnist_file("train-labels-idx1-ubyte", 28881,
                   "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c", 60008,
                   "a25bea736e30d166cdddb491f175f624"),
        mnist_file("t10k-images-idx3-ubyte", 1648877,
                   "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6", 7840016,
                   "2646ac647ad5339dbf082846283269ea"),
        mnist_file("t10k-labels-idx1-ubyte", 4542,
                   "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6", 10008,
                   "27ae3e4e09519cfbb04c329615203637")}},
      {"cifar10",
       "things and animals, 50,000 and 10,000 color images of 32 x 32",
       "cifar10",
       {{"cifar-10-binary.tar.gz",
         170052171,
         "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
         {"https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz"},
         batches}}},
      {"tinyshakespeare",
       "plays of Shakespeare, 1.1 million characters",
       "text",
       {{"input.txt",
         1115394,
         "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed",
         {"https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/"
          "input.txt"}}}},
      {"enwik8",
       "the first 100 million bytes of an English Wikipedia, with its markup",
       "text",
       {{"enwik8.zip",
         36445475,
         "547994d9980ebed1288380d652999f38a14fe291a6247c157c3d33d4932534bc",
         {"https://mattmahoney.net/dc/enwik8.zip"},
         {{"enwik8", kHundredMillion, "a1fa5ffddb56f4953e226637dabbb36a"}}}}},
      {"text8",
       "enwik8's words in small letters and spaces, 100 million of them",
       "text",
       {{"text8.zip",
         31344016,
         "",
         {"https://mattmahoney.net/dc/text8.zip"},
         {{"text8", kHundredMillion, "3bea1919949baf155f99411df5fada7e"}}}}},
  };
}

// The file under its name, its last component, or the alternative spelling of MNIST's names, or in
// a folder of such a name; empty where none exists.
fs::path find_file(const fs::path& folder, const std::string& name) {
  std::string dotted = name;
  const size_t dash = dotted.find("-idx");
  if (dash != std::string::npos) dotted[dash] = '.';
  for (const fs::path& candidate :
       {folder / name, folder / fs::path(name).filename(), folder / dotted})
    if (const fs::path file = find_wrapped_file(candidate); !file.empty()) return file;
  return {};
}

std::string gzip_content_md5(const fs::path& path, int64_t max_bytes) {
  GzipReader file(path);
  Hasher hasher(HashKind::md5);
  std::string buffer(static_cast<size_t>(kBufferBytes), '\0');
  int64_t read = 0;
  while (const int64_t got = file.read(buffer.data(), kBufferBytes)) {
    hasher.update(buffer.data(), static_cast<size_t>(got));
    read += got;
    if (read > max_bytes) return fmt::format("more than {} bytes", max_bytes);
  }
  return hasher.hex();
}

// The MD5 of the only file in an archive.
std::string content_md5(const fs::path& path, const UnpackedFile& content) {
  try {
    if (path.extension() == ".zip") return hash_bytes(read_zip(path, kMaxFileBytes), HashKind::md5);
    return gzip_content_md5(path, content.bytes);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::input) throw;
    return error.what();  // truncated or damaged
  }
}

FileReport compared(FileReport report, const std::string& criterion, const std::string& expected,
                    const std::string& found) {
  report.criterion = criterion;
  report.state = expected == found ? FileState::ok : FileState::differs;
  if (report.state == FileState::differs) {
    report.expected = expected;
    report.found = found;
  }
  return report;
}

FileReport compare_size(const FileReport& report, int64_t expected, const fs::path& path) {
  FileReport result =
      compared(report, "size: no checksum is known", fmt::format("{} bytes", expected),
               fmt::format("{} bytes", plain_file_size(path)));
  if (result.state == FileState::ok) result.state = FileState::unverified;
  return result;
}

FileReport check_published(const FileReport& report, const PublishedFile& file,
                           const fs::path& path) {
  std::string hash;
  if (!file.sha256.empty()) {
    hash = hash_file(path);
    if (hash == file.sha256 || file.unpacked.size() != 1)
      return compared(report, "sha256", file.sha256, hash);
  }
  if (file.unpacked.size() == 1 && !file.unpacked[0].md5.empty())
    return compared(report, "md5 of its content", file.unpacked[0].md5,
                    content_md5(path, file.unpacked[0]));
  return compare_size(report, file.bytes, path);
}

}  // namespace

const std::vector<DataSet>& catalog() {
  static const std::vector<DataSet> kCatalog = make_catalog();
  return kCatalog;
}

const DataSet& find_data_set(const std::string& name) {
  std::string names;
  for (const DataSet& set : catalog()) {
    if (set.name == name) return set;
    names += (names.empty() ? "" : ", ") + set.name;
  }
  fail(ErrorKind::usage, "there is no data set '{}'; choose one of {}", name, names);
}

const char* to_string(FileState state) {
  switch (state) {
    case FileState::ok:
      return "ok";
    case FileState::unverified:
      return "unverified";
    case FileState::differs:
      return "differs";
    case FileState::missing:
      return "missing";
  }
  return "unknown";
}

std::vector<FileReport> check_file(const DataSet& set, const PublishedFile& file,
                                   const fs::path& folder) {
  if (const fs::path path = find_file(folder, file.name); !path.empty())
    return {check_published({.set = set.name, .file = file.name}, file, path)};
  std::vector<FileReport> reports;
  bool any = false;
  for (const UnpackedFile& content : file.unpacked) {
    FileReport report{.set = set.name, .file = content.name};
    if (const fs::path path = find_file(folder, content.name); !path.empty()) {
      any = true;
      report = content.md5.empty()
                   ? compare_size(report, content.bytes, path)
                   : compared(report, "md5", content.md5, hash_file(path, HashKind::md5));
    }
    reports.push_back(report);
  }
  if (!any) return {{.set = set.name, .file = file.name}};
  return reports;
}

std::vector<FileReport> verify_folder(const fs::path& folder, const std::vector<DataSet>& sets) {
  std::error_code ignored;
  if (!fs::is_directory(folder, ignored))
    fail(ErrorKind::input, "{}: is not a folder; name the one that holds the data",
         folder.string());
  std::vector<FileReport> reports;
  for (const DataSet& set : sets) {
    std::vector<FileReport> set_reports;
    bool any = false;
    for (const PublishedFile& file : set.files)
      for (const FileReport& report : check_file(set, file, folder)) {
        any = any || report.state != FileState::missing;
        set_reports.push_back(report);
      }
    if (any) reports.insert(reports.end(), set_reports.begin(), set_reports.end());
  }
  if (reports.empty()) {
    std::string names;
    for (const DataSet& set : sets) names += (names.empty() ? "" : ", ") + set.name;
    fail(ErrorKind::input, "{}: has no file of {}; name the folder of a published data set",
         folder.string(), names);
  }
  return reports;
}

}  // namespace linea
