// The PNG and JPEG files of a folder and of the folders in it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace linea {

struct ImagePath {
  std::string relative;  // to the listed folder, with slashes
  std::filesystem::path full;

  // The first folder of the relative path, "" where there is none.
  std::string top() const;
};

struct ImageListing {
  std::vector<ImagePath> files;                // ascending by the bytes of their relative paths
  std::map<std::string, int64_t> other_files;  // by ending: ".webp"
  int64_t dead_links = 0;                      // to nothing
  int64_t repeated_links = 0;                  // to a folder that is listed already
};

// Names that start with a dot are passed over. Links are followed, each real folder once: under its
// own name if it is inside, else under the first of the links to it. Error: ErrorKind::input for
// what is not a folder or cannot be listed.
ImageListing list_images(const std::filesystem::path& folder);

// "3 .webp files, 1 link to nothing": what is not in `files`; "" for nothing.
std::string describe_left_out(const ImageListing& listing);

}  // namespace linea
