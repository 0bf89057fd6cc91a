// Disks that fail: one call of many, or all at once as when the power goes.
#pragma once

#include <sys/stat.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include "data/disk.h"
#include "data/files.h"

namespace linea {

// The call number `at` (from 0) of those seen fails with `reason`.
class FailingCall : public disk::Watcher {
 public:
  FailingCall(int at, int reason) : at_(at), reason_(reason) { disk::watch(this); }
  ~FailingCall() override { disk::watch(nullptr); }
  int before(disk::Call call, const std::filesystem::path& path) override {
    if (calls_++ != at_) return 0;
    what_ = std::string(disk::name_of(call)) + " " + path.string();
    return reason_;
  }
  void after(disk::Call, const std::filesystem::path&) override {}
  bool failed() const { return calls_ > at_; }
  const std::string& what() const { return what_; }

 private:
  int at_, reason_, calls_ = 0;
  std::string what_;
};

struct PowerCut {};

// From call number `at` on nothing reaches the disk: that call throws PowerCut, later ones fail.
// What would be there after the power is back is what had been flushed: a file's bytes by its own
// flush, a name by its folder's.
class FailingPower : public disk::Watcher {
 public:
  // `root` with all that is in it is on the disk.
  FailingPower(const std::filesystem::path& root, int at) : root_(root), at_(at) {
    adopt(root);
    disk::watch(this);
  }
  ~FailingPower() override { disk::watch(nullptr); }

  int before(disk::Call call, const std::filesystem::path& path) override {
    if (calls_++ < at_) return 0;
    if (cut_) return EIO;  // by destructors, on the way out
    cut_ = true;
    what_ = std::string(disk::name_of(call)) + " " + path.string();
    throw PowerCut();
  }
  void after(disk::Call call, const std::filesystem::path& path) override {
    if (call == disk::Call::create || call == disk::Call::make_folder)
      nodes_[inode(path)] = next_++;
    if (call == disk::Call::flush) files_[node(path)] = read_file(path);
    if (call == disk::Call::flush_folder) flush_names(path);
  }
  bool cut() const { return cut_; }
  const std::string& what() const { return what_; }

  // What is there when the power is back. `names_got_through`: the system had put names on the disk
  // of its own accord, bytes not.
  void restore(const std::filesystem::path& to, bool names_got_through) {
    if (names_got_through)
      for (const auto& entry : std::filesystem::recursive_directory_iterator(root_))
        if (entry.is_directory()) flush_names(entry.path());
    std::filesystem::remove_all(to);
    write_folder(node(root_), to);
  }

 private:
  static ino_t inode(const std::filesystem::path& path) {
    struct stat facts {};
    stat(path.c_str(), &facts);
    return facts.st_ino;
  }
  // A name of the file or folder that no later one has, as inode numbers do.
  int node(const std::filesystem::path& path) {
    const auto [found, added] = nodes_.try_emplace(inode(path), next_);
    if (added) ++next_;
    return found->second;
  }
  void flush_names(const std::filesystem::path& folder) {
    auto& names = folders_[node(folder)];
    names.clear();
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      names[entry.path().filename().string()] = node(entry.path());
      if (entry.is_directory()) folders_.try_emplace(node(entry.path()));
    }
  }
  void adopt(const std::filesystem::path& folder) {
    flush_names(folder);
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      if (entry.is_directory()) {
        adopt(entry.path());
      } else {
        files_[node(entry.path())] = read_file(entry.path());
      }
    }
  }
  void write_folder(int from, const std::filesystem::path& to) const {
    std::filesystem::create_directories(to);
    for (const auto& [name, child] : folders_.at(from)) {
      if (folders_.count(child) != 0) {
        write_folder(child, to / name);
      } else {
        const auto bytes = files_.find(child);
        std::ofstream(to / name) << (bytes == files_.end() ? "" : bytes->second);
      }
    }
  }

  std::filesystem::path root_;
  int at_, calls_ = 0, next_ = 1;
  bool cut_ = false;
  std::string what_;
  std::map<ino_t, int> nodes_;
  std::map<int, std::string> files_;
  std::map<int, std::map<std::string, int>> folders_;
};

}  // namespace linea
