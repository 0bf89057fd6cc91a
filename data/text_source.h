// The bytes of a text: in memory where they are few or were unpacked, otherwise in their file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

namespace linea {

constexpr int64_t kTextInMemory = int64_t{64} << 20;  // bytes of a file that is read as a whole

class TextSource {
 public:
  // `name`: of the file, for errors.
  TextSource(std::string text, std::string name);
  // Stays open until the end. Error: ErrorKind::input, a file that cannot be read.
  explicit TextSource(const std::filesystem::path& file, int64_t max_in_memory = kTextInMemory);
  ~TextSource();
  TextSource(const TextSource&) = delete;
  TextSource& operator=(const TextSource&) = delete;

  const std::string& name() const { return name_; }
  int64_t size() const { return size_; }
  bool is_in_memory() const { return descriptor_ < 0; }

  // Bytes [first, end); `buffer` holds them where they are read from the file. Error:
  // ErrorKind::input, a file that was changed since it was opened.
  std::string_view read(int64_t first, int64_t end, std::string& buffer) const;

  // The bytes that show the kind of a text: all where it is in memory, else the first and last,
  // whole characters where it is UTF-8.
  std::string_view start(std::string& buffer) const;

  // Leaves out the first bytes, a byte order mark.
  void leave_out(int64_t bytes);

  // All of [first, end) in order, in blocks that end after a character where the text is UTF-8.
  void for_each_block(int64_t first, int64_t end,
                      const std::function<void(std::string_view)>& visit) const;

 private:
  struct Stamp {
    int64_t bytes = 0, seconds = 0, nanoseconds = 0;  // size and time of the last change
    bool operator==(const Stamp&) const = default;
  };
  Stamp stamp() const;

  std::string name_, text_;
  int64_t size_ = 0, left_out_ = 0;
  int descriptor_ = -1;  // -1: text_ has all bytes
  Stamp stamp_;
};

}  // namespace linea
