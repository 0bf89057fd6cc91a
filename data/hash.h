// Checksums of bytes and files, by OpenSSL's libcrypto.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

namespace linea {

enum class HashKind { sha256, md5 };  // md5: only to compare with published sums

// Incremental; hex() ends it.
class Hasher {
 public:
  explicit Hasher(HashKind kind = HashKind::sha256);
  ~Hasher();
  Hasher(const Hasher&) = delete;
  Hasher& operator=(const Hasher&) = delete;

  void update(const void* bytes, size_t count);
  // The checksum in lower-case hexadecimal digits. No call may follow.
  std::string hex();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

std::string hash_bytes(std::string_view bytes, HashKind kind = HashKind::sha256);

// Reads the file in blocks. Error: ErrorKind::input where it cannot be read.
std::string hash_file(const std::filesystem::path& path, HashKind kind = HashKind::sha256);

}  // namespace linea
