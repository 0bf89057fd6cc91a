#include "data/readers/image_folder.h"

#include <algorithm>
#include <exception>
#include <system_error>
#include <utility>

#include "data/readers/image_file.h"
#include "tensor/context.h"
#include "tensor/error.h"

namespace linea {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kCycle = 10, kValIndex = 8, kTestIndex = 9;
constexpr int64_t kMaxBadFraction = 100;  // one file in this many may be bad
constexpr size_t kShownNotes = 5;
constexpr int64_t kDecodeBatch = 256;  // decoded in parallel, then stored in order

struct ImagePath {
  std::string relative;  // with slashes
  fs::path full;
};

struct Listing {
  std::vector<ImagePath> files;
  int64_t links = 0, others = 0;  // not followed; neither PNG nor JPEG by their names
};

bool has_image_extension(const fs::path& path) {
  std::string extension = path.extension().string();
  for (char& letter : extension)
    if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
  return extension == ".png" || extension == ".jpg" || extension == ".jpeg";
}

Listing list_images(const fs::path& folder) {
  Listing listing;
  std::error_code problem;
  if (!fs::is_directory(folder, problem))
    fail(ErrorKind::input, "{}: is not a folder; name the one that holds the images",
         folder.string());
  fs::recursive_directory_iterator entry(folder, problem);
  for (; !problem && entry != fs::recursive_directory_iterator(); entry.increment(problem)) {
    const fs::path& path = entry->path();
    const bool hidden = path.filename().string().starts_with('.');
    std::error_code ignored;
    if (hidden) {
      entry.disable_recursion_pending();
    } else if (entry->is_symlink(ignored)) {
      ++listing.links;
    } else if (!entry->is_regular_file(ignored)) {
      continue;
    } else if (has_image_extension(path)) {
      listing.files.push_back({path.lexically_relative(folder).generic_string(), path});
    } else {
      ++listing.others;
    }
  }
  if (problem)
    fail(ErrorKind::input, "{}: cannot be listed: {}; check the rights of the folders in it",
         folder.string(), problem.message());
  std::sort(listing.files.begin(), listing.files.end(),
            [](const ImagePath& a, const ImagePath& b) { return a.relative < b.relative; });
  return listing;
}

// The first folder of the relative path; empty where there is none.
std::string class_name(const ImagePath& file) {
  const size_t slash = file.relative.find('/');
  return slash == std::string::npos ? "" : file.relative.substr(0, slash);
}

std::vector<std::string> find_classes(const fs::path& folder, const std::vector<ImagePath>& files,
                                      const std::vector<std::string>& known) {
  std::vector<std::string> classes;
  for (const ImagePath& file : files) {
    const std::string name = class_name(file);
    if (name.empty())
      fail(ErrorKind::input,
           "{}: is in no class folder; move it into one or leave out `class_token`",
           file.full.string());
    if (classes.empty() || classes.back() != name) classes.push_back(name);
  }
  // A slash sorts between other bytes: files of "a" and "a-b" may alternate, and repeat a name.
  std::sort(classes.begin(), classes.end());
  classes.erase(std::unique(classes.begin(), classes.end()), classes.end());
  if (static_cast<int64_t>(classes.size()) > kMaxImageClasses)
    fail(ErrorKind::input, "{}: has {} folders, at most {} can be classes; leave out `class_token`",
         folder.string(), classes.size(), kMaxImageClasses);
  for (const std::string& name : classes)
    if (!known.empty() && std::find(known.begin(), known.end(), name) == known.end())
      fail(ErrorKind::input,
           "{}: its folder '{}' is not one of the classes of the training run: {}", folder.string(),
           name, fmt::join(known, ", "));
  return known.empty() ? classes : known;
}

struct Decoding {
  std::vector<uint8_t> pixels;
  std::string problem;         // why the file is skipped
  std::exception_ptr failure;  // an error that is not the file's
};

Decoding decode_one(const fs::path& path, int64_t side, int64_t channels) {
  Decoding decoding;
  try {
    decoding.pixels = read_image(path, side, channels);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::input)
      decoding.problem = error.what();
    else
      decoding.failure = std::current_exception();
  } catch (...) {
    decoding.failure = std::current_exception();
  }
  return decoding;
}

std::vector<Decoding> decode_all(const std::vector<ImagePath>& files, size_t first, size_t count,
                                 int64_t side, int64_t channels) {
  std::vector<Decoding> decodings(count);
#pragma omp parallel for schedule(dynamic) num_threads(context().threads)
  for (size_t i = 0; i < count; ++i)
    decodings[i] = decode_one(files[first + i].full, side, channels);
  for (const Decoding& decoding : decodings)
    if (decoding.failure) std::rethrow_exception(decoding.failure);
  return decodings;
}

ImageSet& split_at(ImageSplits& splits, size_t position) {
  const auto index = static_cast<int64_t>(position) % kCycle;
  return index == kValIndex ? splits.val : index == kTestIndex ? splits.test : splits.train;
}

void check_count(const fs::path& folder, size_t count, int64_t side, int64_t channels) {
  if (static_cast<int64_t>(count) < kCycle)
    fail(ErrorKind::input, "{}: holds {} PNG and JPEG files; train, val and test need at least {}",
         folder.string(), count, kCycle);
  const int64_t bytes = static_cast<int64_t>(count) * side * side * channels;
  if (bytes > kMaxImagesBytes)
    fail(ErrorKind::input,
         "{}: {} images of {} x {} x {} take {} bytes, at most {} are supported; lower `size` or "
         "use fewer",
         folder.string(), count, side, side, channels, bytes, kMaxImagesBytes);
}

}  // namespace

ImageFolder read_image_folder(const fs::path& folder, int64_t side, int64_t channels, Labels labels,
                              const std::vector<std::string>& known) {
  const Listing listing = list_images(folder);
  const std::vector<ImagePath>& files = listing.files;
  check_count(folder, files.size(), side, channels);
  ImageFolder result;
  if (labels == Labels::folders) result.classes = find_classes(folder, files, known);
  for (ImageSet* set : {&result.splits.train, &result.splits.val, &result.splits.test}) {
    *set = ImageSet{side, channels, {}, {}};
    const size_t cycles = files.size() / kCycle + 1;
    const size_t per_cycle = set == &result.splits.train ? kValIndex : 1;
    // Reallocation would need twice the memory.
    set->pixels.reserve(per_cycle * cycles * static_cast<size_t>(set->image_bytes()));
  }
  if (listing.links > 0)
    result.notes.push_back(
        fmt::format("{}: {} links are not followed", folder.string(), listing.links));
  if (listing.others > 0)
    result.notes.push_back(fmt::format("{}: left out: {} {}, neither .png nor .jpg nor .jpeg",
                                       folder.string(), listing.others,
                                       listing.others == 1 ? "file" : "files"));
  size_t bad = 0;
  for (size_t first = 0; first < files.size(); first += kDecodeBatch) {
    const size_t count = std::min<size_t>(kDecodeBatch, files.size() - first);
    const std::vector<Decoding> decodings = decode_all(files, first, count, side, channels);
    for (size_t i = 0; i < count; ++i) {
      if (!decodings[i].problem.empty()) {
        if (++bad <= kShownNotes) result.notes.push_back("skipped: " + decodings[i].problem);
        if (bad * kMaxBadFraction > files.size())
          fail(ErrorKind::input,
               "{}: more than one in {} of its {} images cannot be read ({} so far); the last: {}",
               folder.string(), kMaxBadFraction, files.size(), bad, decodings[i].problem);
        continue;
      }
      ImageSet& set = split_at(result.splits, first + i);
      set.pixels.insert(set.pixels.end(), decodings[i].pixels.begin(), decodings[i].pixels.end());
      const auto label = std::lower_bound(result.classes.begin(), result.classes.end(),
                                          class_name(files[first + i]));
      set.labels.push_back(
          static_cast<uint8_t>(label == result.classes.end() ? 0 : label - result.classes.begin()));
    }
  }
  if (bad > 0)
    result.notes.push_back(
        fmt::format("{}: {} of {} images are skipped", folder.string(), bad, files.size()));
  return result;
}

}  // namespace linea
