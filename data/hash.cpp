#include "data/hash.h"

#include <openssl/evp.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <vector>

#include "base/error.h"
#include "data/files.h"

namespace linea {

struct Hasher::State {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  ~State() { EVP_MD_CTX_free(context); }
};

Hasher::Hasher(HashKind kind) : state_(std::make_unique<State>()) {
  const EVP_MD* method = kind == HashKind::sha256 ? EVP_sha256() : EVP_md5();
  if (state_->context == nullptr || EVP_DigestInit_ex(state_->context, method, nullptr) != 1)
    fail(ErrorKind::usage, "libcrypto does not provide {}; its configuration forbids it",
         kind == HashKind::sha256 ? "SHA-256" : "MD5");
}

Hasher::~Hasher() = default;

void Hasher::update(const void* bytes, size_t count) {
  EVP_DigestUpdate(state_->context, bytes, count);
}

std::string Hasher::hex() {
  unsigned char sum[EVP_MAX_MD_SIZE];
  unsigned int count = 0;
  EVP_DigestFinal_ex(state_->context, sum, &count);
  std::string digits;
  for (unsigned int i = 0; i < count; ++i) digits += fmt::format("{:02x}", sum[i]);
  return digits;
}

std::string hash_bytes(std::string_view bytes, HashKind kind) {
  Hasher hasher(kind);
  hasher.update(bytes.data(), bytes.size());
  return hasher.hex();
}

std::string hash_file(const std::filesystem::path& path, HashKind kind) {
  plain_file_size(path);
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"),
                                                             std::fclose);
  if (!file)
    fail(ErrorKind::input, "{}: cannot be opened: {}", path.string(), std::strerror(errno));
  Hasher hasher(kind);
  std::vector<char> buffer(kBufferBytes);
  while (const size_t count = std::fread(buffer.data(), 1, buffer.size(), file.get()))
    hasher.update(buffer.data(), count);
  if (std::ferror(file.get()) != 0)
    fail(ErrorKind::input, "{}: cannot be read to its end", path.string());
  return hasher.hex();
}

}  // namespace linea
