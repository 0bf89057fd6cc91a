#include "data/readers/image_folder.h"

#include <algorithm>
#include <exception>
#include <set>

#include "base/error.h"
#include "data/one_line.h"
#include "data/readers/image_file.h"
#include "data/readers/image_listing.h"
#include "data/utf8.h"
#include "tensor/context.h"

namespace linea {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kCycle = 10, kValIndex = 8, kTestIndex = 9;
constexpr int64_t kMaxBadFraction = 100;  // one file in this many may be bad
constexpr size_t kShownNotes = 5;
constexpr int64_t kDecodeBatch = 256;  // decoded in parallel, then stored in order

// A file and where it goes.
struct Placed {
  ImagePath path;
  ImageSet ImageSplits::*split;
  std::string class_folder;  // relative, as its path; "" outside of all
  bool names_class = true;   // else its class is one that other files name

  std::string class_name() const { return class_folder.substr(class_folder.rfind('/') + 1); }
};

// The split of a top folder of this name; null for other names.
ImageSet ImageSplits::*split_named(std::string name) {
  for (char& letter : name)
    if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
  if (name == "train") return &ImageSplits::train;
  if (name == "val" || name == "valid" || name == "validation") return &ImageSplits::val;
  if (name == "test") return &ImageSplits::test;
  return nullptr;
}

std::set<std::string> top_folders(const std::vector<ImagePath>& files) {
  std::set<std::string> tops;
  for (const ImagePath& file : files) tops.insert(file.top());
  tops.erase("");
  return tops;
}

// The ninth of each ten files is val and the tenth test.
ImageSet ImageSplits::*split_at(size_t position) {
  const auto index = static_cast<int64_t>(position) % kCycle;
  return index == kValIndex    ? &ImageSplits::val
         : index == kTestIndex ? &ImageSplits::test
                               : &ImageSplits::train;
}

std::vector<Placed> place_by_turns(const fs::path& folder, const ImageListing& listing) {
  if (static_cast<int64_t>(listing.files.size()) < kCycle) {
    const std::string left_out = describe_left_out(listing);
    fail(ErrorKind::input,
         "{}: holds {} PNG and JPEG files (.png, .jpg, .jpeg, .jfif){}; convert or add images: "
         "train, val and test need at least {} together",
         folder.string(), listing.files.size(), left_out.empty() ? "" : ", but " + left_out,
         kCycle);
  }
  std::vector<Placed> placed;
  for (const ImagePath& file : listing.files)
    placed.push_back({file, split_at(placed.size()), file.top()});
  return placed;
}

// The folders of the splits: train, and val and test where there are some.
struct SplitFolders {
  std::string train, val, test;
};

SplitFolders find_split_folders(const fs::path& folder, const std::set<std::string>& tops) {
  SplitFolders found;
  for (const std::string& top : tops) {
    const auto split = split_named(top);
    std::string& name = split == &ImageSplits::train ? found.train
                        : split == &ImageSplits::val ? found.val
                                                     : found.test;
    if (!name.empty())
      fail(ErrorKind::input, "{}: {} and {} both hold the images of one split; leave one of them",
           folder.string(), name, top);
    name = top;
  }
  if (found.train.empty())
    fail(ErrorKind::input, "{}: has images in {} but none in train; put the training images there",
         folder.string(), fmt::join(tops, " and "));
  return found;
}

// "train, val, test", or what takes the place of those that are missing.
std::string describe_splits(const SplitFolders& folders) {
  return fmt::format("{}{}, {}", folders.train,
                     folders.val.empty() ? " (of ten images one is val)" : ", " + folders.val,
                     folders.test.empty() ? "no test" : folders.test);
}

// Without a folder of the validation split, the ninth of each ten files of train is val. Files
// outside of the folders are left out.
std::vector<Placed> place_by_folders(const fs::path& folder, const std::vector<ImagePath>& files,
                                     std::vector<std::string>& notes) {
  const SplitFolders folders = find_split_folders(folder, top_folders(files));
  std::vector<Placed> placed;
  int64_t outside = 0;
  size_t of_train = 0;
  for (const ImagePath& file : files) {
    if (file.top().empty()) {
      ++outside;
      continue;
    }
    auto split = split_named(file.top());
    const bool is_train = split == &ImageSplits::train;
    if (is_train && folders.val.empty() && split_at(of_train++) == &ImageSplits::val)
      split = &ImageSplits::val;
    const size_t slash = file.relative.find('/', file.top().size() + 1);
    placed.push_back(
        {file, split, slash == std::string::npos ? "" : file.relative.substr(0, slash), is_train});
  }
  if (std::none_of(placed.begin(), placed.end(),
                   [](const Placed& file) { return file.split == &ImageSplits::val; }))
    fail(
        ErrorKind::input,
        "{}: holds {} images in {}, at least {} are needed to take one of ten for val; add images, "
        "or a folder val",
        folder.string(), of_train, folders.train, kValIndex + 1);
  notes.push_back(
      fmt::format("{}: the splits are its folders: {}", folder.string(), describe_splits(folders)));
  if (outside > 0)
    notes.push_back(fmt::format("{}: left out: {} outside of these folders", folder.string(),
                                outside == 1 ? "1 image" : fmt::format("{} images", outside)));
  return placed;
}

std::vector<Placed> place(const fs::path& folder, const ImageListing& listing,
                          std::vector<std::string>& notes) {
  const std::set<std::string> tops = top_folders(listing.files);
  std::vector<std::string> of_splits, others;
  for (const std::string& top : tops)
    (split_named(top) == nullptr ? others : of_splits).push_back(top);
  if (others.empty() && !of_splits.empty()) return place_by_folders(folder, listing.files, notes);
  if (of_splits.size() >= 2)
    notes.push_back(fmt::format("{}: {} are no splits here, since {} holds images too",
                                folder.string(), fmt::join(of_splits, " and "),
                                one_line(others.front())));
  return place_by_turns(folder, listing);
}

std::vector<std::string> find_classes(const fs::path& folder, const std::vector<Placed>& files,
                                      const std::vector<std::string>& known) {
  std::set<std::string> named;
  for (const Placed& file : files) {
    if (file.class_folder.empty())
      fail(ErrorKind::input,
           "{}: is in no class folder; move it into one or leave out `class_token`",
           file.path.full.string());
    if (first_non_utf8(file.class_name()) != file.class_name().size())
      fail(ErrorKind::input, "{}: its class folder '{}' has a name that is not UTF-8; rename it",
           folder.string(), one_line(file.class_folder));
    if (file.names_class) named.insert(file.class_name());
  }
  const std::vector<std::string> classes(named.begin(), named.end());
  if (static_cast<int64_t>(classes.size()) > kMaxImageClasses)
    fail(ErrorKind::input, "{}: has {} folders, at most {} can be classes; leave out `class_token`",
         folder.string(), classes.size(), kMaxImageClasses);
  for (const Placed& file : files)
    if (named.count(file.class_name()) == 0)
      fail(ErrorKind::input,
           "{}: its folder {} is of no class of the training images, {}; move or remove it",
           folder.string(), file.class_folder, fmt::join(classes, ", "));
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

std::vector<Decoding> decode_all(const std::vector<Placed>& files, size_t first, size_t count,
                                 int64_t side, int64_t channels) {
  std::vector<Decoding> decodings(count);
#pragma omp parallel for schedule(dynamic) num_threads(context().threads)
  for (size_t i = 0; i < count; ++i)
    decodings[i] = decode_one(files[first + i].path.full, side, channels);
  for (const Decoding& decoding : decodings)
    if (decoding.failure) std::rethrow_exception(decoding.failure);
  return decodings;
}

void check_bytes(const fs::path& folder, size_t count, int64_t side, int64_t channels) {
  const int64_t bytes = static_cast<int64_t>(count) * side * side * channels;
  if (bytes > kMaxImagesBytes)
    fail(ErrorKind::input,
         "{}: {} images of {} x {} x {} take {} bytes, at most {} are supported; lower `size` or "
         "use fewer",
         folder.string(), count, side, side, channels, bytes, kMaxImagesBytes);
}

// Empty sets with room: reallocation would need twice the memory.
ImageSplits make_room(const std::vector<Placed>& files, int64_t side, int64_t channels) {
  ImageSplits splits;
  for (const auto split : {&ImageSplits::train, &ImageSplits::val, &ImageSplits::test}) {
    const auto count = std::count_if(files.begin(), files.end(),
                                     [split](const Placed& file) { return file.split == split; });
    splits.*split = ImageSet{side, channels, {}, {}};
    (splits.*split).pixels.reserve(static_cast<size_t>(count * (splits.*split).image_bytes()));
  }
  return splits;
}

uint8_t class_label(const std::string& name, const std::vector<std::string>& classes) {
  const auto label = std::lower_bound(classes.begin(), classes.end(), name);
  return static_cast<uint8_t>(label == classes.end() ? 0 : label - classes.begin());
}

void read_files(const fs::path& folder, const std::vector<Placed>& files, int64_t side,
                int64_t channels, ImageFolder& result) {
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
      const Placed& file = files[first + i];
      ImageSet& set = result.splits.*file.split;
      set.pixels.insert(set.pixels.end(), decodings[i].pixels.begin(), decodings[i].pixels.end());
      set.labels.push_back(class_label(file.class_name(), result.classes));
    }
  }
  if (bad > 0)
    result.notes.push_back(
        fmt::format("{}: {} of {} images are skipped", folder.string(), bad, files.size()));
}

}  // namespace

ImageFolder read_image_folder(const fs::path& folder, int64_t side, int64_t channels, Labels labels,
                              const std::vector<std::string>& known) {
  const ImageListing listing = list_images(folder);
  ImageFolder result;
  const std::vector<Placed> files = place(folder, listing, result.notes);
  check_bytes(folder, files.size(), side, channels);
  if (labels == Labels::folders) result.classes = find_classes(folder, files, known);
  result.splits = make_room(files, side, channels);
  if (const std::string left_out = describe_left_out(listing); !left_out.empty())
    result.notes.push_back(fmt::format("{}: left out: {}", folder.string(), left_out));
  read_files(folder, files, side, channels, result);
  return result;
}

}  // namespace linea
