// Strings that end a sampled text.
#pragma once

#include <string>
#include <vector>

namespace linea {

// Follows a text as it is sampled. It ends before the first stop string; the end of what is sampled
// is held back as long as it may become one.
class StopText {
 public:
  // Error: ErrorKind::usage for an empty string.
  explicit StopText(std::vector<std::string> stops);

  // Takes the next part of the text; returns the text that no stop string can
  // cut off any more.
  std::string add(const std::string& part);
  bool stopped() const { return stopped_; }
  // The text held back, at the end of sampling.
  std::string rest() const { return held_; }

 private:
  std::vector<std::string> stops_;
  std::string held_;
  bool stopped_ = false;
};

}  // namespace linea
