#include "data/text_source.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/system.h"
#include "data/files.h"
#include "data/utf8.h"

namespace linea {
namespace {

constexpr int64_t kEnds = 1 << 16;

}  // namespace

TextSource::TextSource(std::string text, std::string name)
    : name_(std::move(name)), text_(std::move(text)), size_(static_cast<int64_t>(text_.size())) {}

TextSource::TextSource(const std::filesystem::path& file, int64_t max_in_memory)
    : name_(file.string()), size_(plain_file_size(file)) {
  if (size_ <= max_in_memory) {
    text_ = read_file(file, max_in_memory);
    size_ = static_cast<int64_t>(text_.size());
    return;
  }
  descriptor_ = open(file.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor_ < 0)
    fail(ErrorKind::input, "{}: cannot be opened: {}", name_, std::strerror(errno));
  stamp_ = stamp();
  size_ = stamp_.bytes;
}

TextSource::~TextSource() {
  if (descriptor_ >= 0) close(descriptor_);
}

TextSource::Stamp TextSource::stamp() const {
  struct stat status {};
  if (fstat(descriptor_, &status) != 0)
    fail(ErrorKind::input, "{}: cannot be read: {}", name_, std::strerror(errno));
  const timespec time = modification_time(status);
  return {status.st_size, time.tv_sec, time.tv_nsec};
}

std::string_view TextSource::read(int64_t first, int64_t end, std::string& buffer) const {
  require(first >= 0 && first <= end && end <= size_, "{}: bytes {} to {} of {}", name_, first, end,
          size_);
  const auto count = static_cast<size_t>(end - first);
  first += left_out_;
  if (is_in_memory()) return std::string_view(text_).substr(static_cast<size_t>(first), count);
  buffer.resize(count);
  size_t done = 0;
  while (done < count) {
    const ssize_t got = pread(descriptor_, buffer.data() + done, count - done,
                              static_cast<off_t>(first) + static_cast<off_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail(ErrorKind::input, "{}: cannot be read: {}", name_, std::strerror(errno));
    if (got == 0) break;  // shorter than it was
    done += static_cast<size_t>(got);
  }
  // After the bytes were read: what changes them later does not matter.
  if (const Stamp now = stamp(); now != stamp_)
    fail(ErrorKind::input,
         "{}: was changed while it was in use (it had {} bytes, now {}): texts of more than {} MiB "
         "are read when they are needed; restore it, or train on a copy that nothing writes to",
         name_, stamp_.bytes, now.bytes, kTextInMemory >> 20);
  if (done < count)
    fail(ErrorKind::input, "{}: only {} of {} bytes from {} on could be read", name_, done, count,
         first);
  return buffer;
}

std::string_view TextSource::start(std::string& buffer) const {
  if (is_in_memory()) return read(0, size_, buffer);
  read(0, std::min(size_, kEnds), buffer);
  buffer.resize(whole_characters(buffer));
  std::string last;
  std::string_view end = read(size_ - std::min(size_, kEnds), size_, last);
  for (int i = 0; i < 3 && !end.empty() && (static_cast<unsigned char>(end[0]) & 0xC0) == 0x80; ++i)
    end.remove_prefix(1);
  buffer += end;
  return buffer;
}

void TextSource::leave_out(int64_t bytes) {
  left_out_ += bytes;
  size_ -= bytes;
}

void TextSource::for_each_block(int64_t first, int64_t end,
                                const std::function<void(std::string_view)>& visit) const {
  std::string buffer;
  while (first < end) {
    const int64_t stop = std::min(end, first + kBufferBytes);
    std::string_view block = read(first, stop, buffer);
    if (stop < end) block = block.substr(0, whole_characters(block));
    visit(block);
    first += static_cast<int64_t>(block.size());
  }
}

}  // namespace linea
