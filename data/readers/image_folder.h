// Every PNG and JPEG file of a folder and of the folders in it, each cropped to the square in
// its middle and resized (data/readers/image_file.h).
//
// Files are taken in the order of the bytes of their paths, whatever the file system and the
// language settings say. Of each ten in that order the ninth is val, the tenth test, the others
// train. The folders directly inside are the classes, in the same order.
//
// Where all of these folders that hold images are called train, val (or valid, validation) or test,
// in letters of any case, they are the splits: the folders in train are the classes, and a class
// that is not in train is an error. Without val, the ninth of each ten images of train is val;
// without test there is none.
//
// Names that start with a dot are passed over. Links are followed, each real folder once. A file
// that cannot be read is left out with a note, and the notes end with how many were; more than one
// in a hundred are an error.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "data/image_set.h"

namespace linea {

constexpr int64_t kMaxImagesBytes = int64_t{1} << 32;  // of all pixels, which are held in memory
constexpr int64_t kMaxImageClasses = 256;              // a label is a byte

struct ImageFolder {
  ImageSplits splits;                // labels: indices into `classes`; 0 without classes
  std::vector<std::string> classes;  // empty unless asked for
  std::vector<std::string> notes;    // on skipped files, for the user
};

enum class Labels { none, folders };

// `known` classes, where there are some, are the ones that labels count; a folder of another name
// is an error.
ImageFolder read_image_folder(const std::filesystem::path& folder, int64_t side, int64_t channels,
                              Labels labels = Labels::none,
                              const std::vector<std::string>& known = {});

}  // namespace linea
