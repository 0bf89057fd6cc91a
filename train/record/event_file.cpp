#include "train/record/event_file.h"

#include <unistd.h>

#include <charconv>
#include <chrono>
#include <cstring>

#include "base/error.h"
#include "data/crc32c.h"
#include "data/disk.h"
#include "data/files.h"
#include "data/utf8.h"

namespace linea {
namespace {

namespace fs = std::filesystem;
constexpr const char* kEventFile = "events.out.tfevents.";

// Field numbers, from TensorFlow's event.proto, summary.proto and
// tensor.proto.
namespace event {
constexpr uint32_t kWallTime = 1, kStep = 2, kFileVersion = 3, kSummary = 5, kSessionLog = 7;
}
namespace session_log {
constexpr uint32_t kStatus = 1, kStart = 1;
}
namespace summary {
constexpr uint32_t kValue = 1, kTag = 1, kSimpleValue = 2, kImage = 4, kTensor = 8, kMetadata = 9;
}
namespace image {
constexpr uint32_t kHeight = 1, kWidth = 2, kColorspace = 3, kEncoded = 4;
}
namespace metadata {
constexpr uint32_t kPluginData = 1, kPluginName = 1;
}
namespace tensor {
constexpr uint32_t kDtype = 1, kShape = 2, kStringVal = 8, kString = 7;
}

// The low `count` bytes, least significant first.
void append_little_endian(std::string& bytes, uint64_t value, int count) {
  for (int i = 0; i < count; ++i) bytes += static_cast<char>(value >> (8 * i) & 0xFF);
}

// The fields of one protobuf message.
class Message {
 public:
  Message& integer(uint32_t field, uint64_t value) {
    key(field, 0);
    varint(value);
    return *this;
  }
  Message& real64(uint32_t field, double value) {
    uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    key(field, 1);
    append_little_endian(bytes_, bits, 8);
    return *this;
  }
  Message& real32(uint32_t field, float value) {
    uint32_t bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    key(field, 5);
    append_little_endian(bytes_, bits, 4);
    return *this;
  }
  Message& bytes(uint32_t field, std::string_view value) {
    key(field, 2);
    varint(value.size());
    bytes_ += value;
    return *this;
  }
  Message& message(uint32_t field, const Message& value) { return bytes(field, value.bytes_); }
  const std::string& str() const { return bytes_; }

 private:
  void key(uint32_t field, uint32_t wire_type) { varint(field << 3 | wire_type); }
  void varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>(value | 0x80);
    bytes_ += static_cast<char>(value);
  }

  std::string bytes_;
};

Message event_at(int64_t step) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  Message message;
  message.real64(event::kWallTime, std::chrono::duration<double>(now).count());
  if (step != 0) message.integer(event::kStep, static_cast<uint64_t>(step));
  return message;
}

uint32_t big_endian32(std::string_view bytes, size_t at) {
  uint32_t value = 0;
  for (size_t i = at; i < at + 4; ++i) value = value << 8 | static_cast<uint8_t>(bytes[i]);
  return value;
}

std::string host_name() {
  char name[256] = {};
  return gethostname(name, sizeof name - 1) == 0 && name[0] != '\0' ? name : "localhost";
}

// The time in the name "events.out.tfevents.TIME.HOST.PID"; 0 for any other name.
int64_t parse_time(const std::string& name) {
  if (name.rfind(kEventFile, 0) != 0) return 0;
  int64_t time = 0;
  const char* digits = name.data() + std::strlen(kEventFile);
  const auto [rest, error] = std::from_chars(digits, name.data() + name.size(), time);
  return error == std::errc() ? time : 0;
}

// The current time in seconds, or more where a file of `folder` has a later one in its name:
// TensorBoard reads files in the order of their names.
int64_t next_time(const fs::path& folder) {
  int64_t time = std::chrono::duration_cast<std::chrono::seconds>(
                     std::chrono::system_clock::now().time_since_epoch())
                     .count();
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error))
    time = std::max(time, parse_time(entry.path().filename().string()) + 1);
  return time;
}

}  // namespace

EventFile::EventFile(const fs::path& folder, int64_t resumed_step,
                     std::function<void(const std::string&)> warn)
    : warn_(std::move(warn)) {
  open_in(folder);
  record(event_at(0).bytes(event::kFileVersion, "brain.Event:2").str());
  if (resumed_step < 0) return;
  Message start;
  start.integer(session_log::kStatus, session_log::kStart);
  record(event_at(resumed_step + 1).message(event::kSessionLog, start).str());
}

EventFile::~EventFile() {
  if (descriptor_ >= 0) disk::close(descriptor_, path_);
}

void EventFile::open_in(const fs::path& folder) {
  make_folders(folder);
  path_ =
      folder / fmt::format("{}{:010}.{}.{}", kEventFile, next_time(folder), host_name(), getpid());
  if (const int reason = disk::create(path_, descriptor_))
    fail(ErrorKind::write,
         "cannot write {}: {}; change the permissions of the folder, or leave out `tensorboard`",
         path_.string(), std::strerror(reason));
}

void EventFile::scalars(int64_t step, const std::vector<std::pair<std::string, double>>& values) {
  Message all;
  for (const auto& [name, number] : values) {
    Message value;
    value.bytes(summary::kTag, name).real32(summary::kSimpleValue, static_cast<float>(number));
    all.message(summary::kValue, value);
  }
  record(event_at(step).message(event::kSummary, all).str());
}

// A PNG starts with an 8-byte signature, the length and name of IHDR, width, height, bit depth and
// color type.
void EventFile::image(int64_t step, const std::string& tag, std::string_view png) {
  require(png.size() > 25 && png.substr(1, 3) == "PNG",
          "an image for TensorBoard is not a PNG: {} bytes", png.size());
  const bool gray = png[25] == 0;
  Message image, value, all;
  image.integer(image::kHeight, big_endian32(png, 20))
      .integer(image::kWidth, big_endian32(png, 16))
      .integer(image::kColorspace, gray ? 1 : 3)
      .bytes(image::kEncoded, png);
  all.message(summary::kValue, value.bytes(summary::kTag, tag).message(summary::kImage, image));
  record(event_at(step).message(event::kSummary, all).str());
}

// TensorBoard renders text as Markdown, where lines indented by four blanks are literal.
void EventFile::text(int64_t step, const std::string& tag, const std::string& text) {
  std::string shown = "    ";
  for (const char c : valid_utf8(text)) shown += c == '\n' ? "\n    " : std::string(1, c);
  Message plugin, meta, strings, value, all;
  plugin.bytes(metadata::kPluginName, "text");
  meta.message(metadata::kPluginData, plugin);
  strings.integer(tensor::kDtype, tensor::kString)
      .message(tensor::kShape, Message())
      .bytes(tensor::kStringVal, shown);
  value.bytes(summary::kTag, tag)
      .message(summary::kMetadata, meta)
      .message(summary::kTensor, strings);
  all.message(summary::kValue, value);
  record(event_at(step).message(event::kSummary, all).str());
}

void EventFile::record(const std::string& event) {
  if (descriptor_ < 0) return;
  std::string bytes;
  append_little_endian(bytes, event.size(), 8);
  append_little_endian(bytes, masked_crc32c(bytes), 4);
  bytes += event;
  append_little_endian(bytes, masked_crc32c(event), 4);
  if (const int reason = disk::write(descriptor_, path_, bytes.data(), bytes.size()))
    return disable(reason);
  end_ += static_cast<int64_t>(bytes.size());
}

// Removes a truncated record, which readers would report as an error.
void EventFile::disable(int reason) {
  const bool cut = disk::truncate(descriptor_, path_, end_) == 0;
  disk::close(descriptor_, path_);
  descriptor_ = -1;
  warn_(fmt::format("warning: {} cannot be written: {}; {}training continues without TensorBoard",
                    path_.string(), std::strerror(reason),
                    cut ? "" : "its last record is truncated; "));
}

}  // namespace linea
