// Checksums of bytes and files, by OpenSSL's libcrypto.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

namespace linea {

enum class HashKind { sha256, md5 };  // md5 only to compare with sums that were published so

// Takes bytes in pieces; hex() ends it.
class Hasher {
 public:
  explicit Hasher(HashKind kind = HashKind::sha256);
  ~Hasher();
  Hasher(const Hasher&) = delete;
  Hasher& operator=(const Hasher&) = delete;

  void update(const void* bytes, size_t count);
  // The checksum in lower-case hexadecimal digits. Nothing may follow.
  std::string hex();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

std::string hash_of(std::string_view bytes, HashKind kind = HashKind::sha256);

// Read in pieces, whatever the file's size. Error: ErrorKind::input where it cannot be read.
std::string file_hash(const std::filesystem::path& path, HashKind kind = HashKind::sha256);

}  // namespace linea
