// RUN/tensorboard/events.out.tfevents.*: the scalars and samples of a run for TensorBoard. A file
// of TFRecords,
//
//   u64 length, u32 masked CRC-32C of these 8 bytes, data, u32 masked CRC-32C of the data
//   (little-endian)
//
// each an Event in protobuf wire format. A record is one write of data/disk.h, so that a kill loses
// no recorded data; resuming a run starts a new file.
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
  // Creates a file in `folder` (created if missing) whose name sorts after the existing ones.
  // `resumed_step` above -1: readers discard later steps of earlier files. `warn` gets one line if
  // a write fails; nothing is recorded after that. Error: ErrorKind::write where the file cannot be
  // created.
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
  void disable(int reason);

  std::filesystem::path path_;
  std::function<void(const std::string&)> warn_;
  int descriptor_ = -1;  // -1 after an error
  int64_t end_ = 0;      // bytes of complete records
};

}  // namespace linea
