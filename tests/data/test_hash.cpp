// Sums published with the standards (FIPS 180-4, RFC 1321), and files read in pieces.
#include "data/hash.h"

#include "tests/data/data_helpers.h"

namespace linea {
namespace {

using HashTest = DataTest;

TEST_F(HashTest, PublishedSums) {
  EXPECT_EQ(hash_bytes("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(hash_bytes(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(hash_bytes("message digest", HashKind::md5), "f96b697d7cb7938d525a2f31aaf161d0");
}

TEST_F(HashTest, PiecewiseSumsAreEqual) {
  const std::string text(3000000, 'x');
  Hasher hasher;
  hasher.update(text.data(), 1000001);
  hasher.update(text.data() + 1000001, text.size() - 1000001);
  EXPECT_EQ(hasher.hex(), hash_bytes(text));
}

TEST_F(HashTest, AFileHashesAsItsBytes) {
  const std::string text(2500000, 'y');
  EXPECT_EQ(hash_file(put("file", text)), hash_bytes(text));
  expect_error(ErrorKind::input, {path("missing"), "no such file"},
               [&] { hash_file(path("missing")); });
}

}  // namespace
}  // namespace linea
