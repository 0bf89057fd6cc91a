// RUN/tensorboard/events.out.tfevents.*: the scalars and samples of a run for TensorBoard. A file
// of TFRecords,
//
//   u64 length, u32 masked CRC-32C of these 8 bytes, data, u32 masked CRC-32C of the data
//   (little-endian)
//
// each an Event in the wire form of protobuf. A record goes to the file by one write of
// data/disk.h, so that a kill loses nothing that was recorded; going on with a run begins a new
// file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace linea {

class EventFile {
 public:
  // A new file in `folder`, which is made; its name sorts after those that are there.
  // `resumed_step` above -1: a reader forgets what earlier files hold of later steps. `warn` gets
  // the one line that says that the file could not be written any more; nothing is recorded from
  // then on. Error: ErrorKind::write where it cannot be made.
  EventFile(const std::filesystem::path& folder, int64_t resumed_step,
            std::function<void(const std::string&)> warn);
  ~EventFile();
  EventFile(const EventFile&) = delete;
  EventFile& operator=(const EventFile&) = delete;

  void scalars(int64_t step, const std::vector<std::pair<std::string, double>>& values);
  // `png`: the bytes of the file.
  void image(int64_t step, const std::string& tag, std::string_view png);
  void text(int64_t step, const std::string& tag, const std::string& text);

  const std::filesystem::path& path() const { return path_; }

 private:
  void open_in(const std::filesystem::path& folder);
  void record(const std::string& event);
  void give_up(int reason);

  std::filesystem::path path_;
  std::function<void(const std::string&)> warn_;
  int descriptor_ = -1;  // -1 after an error
  int64_t end_ = 0;      // bytes of whole records
};

}  // namespace linea
