#include "data/readers/image_listing.h"

#include <algorithm>
#include <set>
#include <system_error>
#include <utility>

#include "base/error.h"

namespace linea {
namespace {

namespace fs = std::filesystem;

bool is_letter_or_digit(char byte) {
  return (byte >= 'a' && byte <= 'z') || (byte >= '0' && byte <= '9');
}

// With small letters; "" where it is none of a few letters and digits.
std::string ending_of(const fs::path& path) {
  constexpr size_t kMax = 8;
  std::string ending = path.extension().string();
  for (char& letter : ending)
    if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
  const bool plain = ending.size() >= 2 && ending.size() <= kMax &&
                     std::all_of(ending.begin() + 1, ending.end(), is_letter_or_digit);
  return plain ? ending : "";
}

bool is_image_ending(const std::string& ending) {
  return ending == ".png" || ending == ".jpg" || ending == ".jpeg" || ending == ".jfif";
}

// A folder, as a path from the listed one and as a path of the file system.
using Folder = std::pair<std::string, fs::path>;

class Walk {
 public:
  explicit Walk(fs::path root) : root_(std::move(root)) {}

  ImageListing run() {
    std::vector<Folder> folders = {{"", root_}};
    while (!folders.empty() || !links_.empty()) {
      if (folders.empty()) folders.push_back(links_.extract(links_.begin()).value());
      const Folder folder = folders.back();
      folders.pop_back();
      std::error_code problem;
      const fs::path real = fs::canonical(folder.second, problem);
      if (problem) fail_to_list(problem);
      if (!seen_.insert(real).second)
        ++listing_.repeated_links;
      else
        list(folder, folders);
    }
    std::sort(listing_.files.begin(), listing_.files.end(),
              [](const ImagePath& a, const ImagePath& b) { return a.relative < b.relative; });
    return std::move(listing_);
  }

 private:
  [[noreturn]] void fail_to_list(const std::error_code& problem) const {
    fail(ErrorKind::input, "{}: cannot be listed: {}; check the rights of the folders in it",
         root_.string(), problem.message());
  }

  // Adds the real folders in it to `folders`, the linked ones to links_.
  void list(const Folder& folder, std::vector<Folder>& folders) {
    std::error_code problem;
    fs::directory_iterator entry(folder.second, problem);
    for (; !problem && entry != fs::directory_iterator(); entry.increment(problem)) {
      const std::string name = entry->path().filename().string();
      if (name.starts_with('.')) continue;
      const std::string relative = folder.first.empty() ? name : folder.first + "/" + name;
      std::error_code ignored;
      const bool is_link = entry->is_symlink(ignored);
      if (entry->is_directory(ignored)) {
        if (is_link)
          links_.insert({relative, entry->path()});
        else
          folders.emplace_back(relative, entry->path());
      } else if (!entry->is_regular_file(ignored)) {
        listing_.dead_links += is_link;
      } else if (const std::string ending = ending_of(entry->path()); is_image_ending(ending)) {
        listing_.files.push_back({relative, entry->path()});
      } else {
        ++listing_.other_files[ending];
      }
    }
    if (problem) fail_to_list(problem);
  }

  fs::path root_;
  std::set<Folder> links_;  // not followed yet
  std::set<fs::path> seen_;
  ImageListing listing_;
};

}  // namespace

std::string ImagePath::top() const {
  const size_t slash = relative.find('/');
  return slash == std::string::npos ? "" : relative.substr(0, slash);
}

ImageListing list_images(const fs::path& folder) {
  std::error_code ignored;
  if (!fs::is_directory(folder, ignored))
    fail(ErrorKind::input, "{}: is not a folder; name the one that holds the images",
         folder.string());
  return Walk(folder).run();
}

std::string describe_left_out(const ImageListing& listing) {
  constexpr size_t kShown = 6;
  std::vector<std::string> parts;
  int64_t rest = 0;
  for (const auto& [ending, count] : listing.other_files) {
    if (parts.size() < kShown && !ending.empty())
      parts.push_back(fmt::format("{} {} {}", count, ending, count == 1 ? "file" : "files"));
    else
      rest += count;
  }
  if (rest > 0) parts.push_back(fmt::format("{} other {}", rest, rest == 1 ? "file" : "files"));
  const auto add_links = [&](int64_t count, const char* target) {
    if (count > 0)
      parts.push_back(fmt::format("{} {} to {}", count, count == 1 ? "link" : "links", target));
  };
  add_links(listing.dead_links, "nothing");
  add_links(listing.repeated_links, "folders that are read already");
  return fmt::format("{}", fmt::join(parts, ", "));
}

}  // namespace linea
