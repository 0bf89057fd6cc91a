#include "data/readers/text_file.h"

#include <gtest/gtest.h>

#include "tests/data/data_helpers.h"
#include "tests/data/readers/idx_bytes.h"
#include "tests/data/readers/tar_bytes.h"
#include "tests/data/readers/zip_bytes.h"

namespace linea {
namespace {

using namespace std::string_view_literals;

class TextFileTest : public DataTest {
 protected:
  std::string read(const std::string& name, std::string_view bytes) const {
    return read_text_file(put(name, bytes));
  }
  void refused(const std::string& bytes, std::initializer_list<std::string> fragments) const {
    expect_error(ErrorKind::input, fragments, [&] { read("book.txt", bytes); });
  }
};

const std::string kTextOfBook = "It was the best of times, it was the worst of times.\n";

TEST_F(TextFileTest, TheContentDecides) {
  for (const char* name : {"a.txt", "a.gz", "a.GZ", "a.zip", "a.Zip", "a"}) {
    SCOPED_TRACE(name);
    EXPECT_EQ(read(name, gzip(kTextOfBook)), kTextOfBook);
    EXPECT_EQ(read(name, zip_bytes({zip_entry("a.txt", kTextOfBook)})), kTextOfBook);
  }
  EXPECT_EQ(read("a.txt", kTextOfBook), kTextOfBook);
  for (const char* name : {"a.gz", "a.GZ"})
    expect_error(ErrorKind::input, {"is not gzip"}, [&] { read(name, kTextOfBook); });
  for (const char* name : {"a.zip", "a.ZIP"})
    expect_error(ErrorKind::input, {"not a valid zip"}, [&] { read(name, kTextOfBook); });
}

TEST_F(TextFileTest, LeavesAByteOrderMarkOut) {
  const std::string marked = "\xEF\xBB\xBF" + kTextOfBook;
  for (const std::string& bytes : {marked, gzip(marked), zip_bytes({zip_entry("a", marked)})})
    EXPECT_EQ(read("book.txt", bytes), kTextOfBook);
  refused("\xEF\xBB\xBF", {"is empty"});
  refused(gzip("\xEF\xBB\xBF"), {"is empty"});
}

TEST_F(TextFileTest, TarArchivesAreRefused) {
  const std::string tar = tar_file("book.txt", kTextOfBook) + kTarEnd;
  refused(tar, {path("book.txt"), "is a tar archive; unpack it by tar -xf and name a file in it"});
  refused(gzip(tar), {"holds a tar archive in gzip; unpack it by tar -xf"});
  refused(zip_bytes({zip_entry("book.tar", tar)}), {"holds a tar archive in a zip archive;"});
  std::string old = tar;  // before ustar: no name of the format, the checksum without it
  int64_t sum = 0;
  for (size_t i = 257; i < 265; ++i) old[i] = '\0';
  for (size_t i = 0; i < 512; ++i)
    sum += i >= 148 && i < 156 ? ' ' : static_cast<unsigned char>(old[i]);
  old.replace(148, 7, fmt::format("{:06o}", sum) + '\0');
  refused(old, {"is a tar archive"});
  old[0] = 'B';  // another sum
  EXPECT_EQ(read("book.txt", old), old);
}

TEST_F(TextFileTest, KindsAreNamedWithTheirRemedy) {
  refused(gzip(gzip(kTextOfBook)), {"holds gzip in gzip; unpack it by gzip -d"});
  refused(gzip(zip_bytes({zip_entry("a", kTextOfBook)})), {"holds a zip archive in gzip; unpack"});
  refused(zip_bytes({zip_entry("a", gzip(kTextOfBook))}), {"holds gzip in a zip archive"});
  refused(zip_bytes({}), {"is an empty zip archive"});
  struct Kind {
    std::string_view bytes;
    const char *name, *remedy;
  };
  const Kind kinds[] = {
      {"BZh91AY&SY\0"sv, "is bzip2", "bzip2 -d"},
      {"\xFD\x37zXZ\0\0"sv, "is xz", "xz -d"},
      {"\x28\xB5\x2F\xFD\0"sv, "is zstd", "zstd -d"},
      {"\4\x22\x4D\x18\0"sv, "is lz4", "lz4 -d"},
      {"7z\xBC\xAF\x27\x1C\0"sv, "is a 7-Zip archive", "7z x"},
      {"Rar!\x1A\7\1\0"sv, "is a RAR archive", "unrar x"},
      {"!<arch>\ndebian-binary"sv, "is an ar archive", "ar x"},
      {"%PDF-1.7\n1 0 obj"sv, "is a PDF document", "pdftotext"},
      {"{\\rtf1\\ansi hello}"sv, "is an RTF document", "plain text"},
      {"\xD0\xCF\x11\xE0\xA1\xB1\x1A\xE1\0"sv, "is an old Office document", "soffice"},
      {"\x89PNG\r\n\x1A\n\0"sv, "is a PNG image", "task images"},
      {"\xFF\xD8\xFF\xE0\0"sv, "is a JPEG image", "task images"},
      {"RIFF\x10\0\0\0WEBPVP8 "sv, "is a WebP image", "task images"},
      {"\x7F"
       "ELF\2\1\1\0"sv,
       "is a program (ELF)", "name a file of text"},
      {"SQLite format 3\0"sv, "is an SQLite database", "sqlite3"},
      {"\x93NUMPY\1\0"sv, "is a NumPy array", "plain file"},
      {"PAR1\0\0\0\0\0\0PAR1"sv, "is a Parquet table", "plain file"},
      {"\x02\0\0\0\0\0\0\0{\"a\":1}"sv, "is a safetensors file", "name a file of text"},
      {"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12\n"sv,
       "is a pointer of Git LFS, not the file itself", "git lfs pull"},
      {"/annex/objects/MD5-s1--a\n"sv, "is a pointer of git-annex", "git annex get"},
  };
  for (const Kind& kind : kinds) {
    SCOPED_TRACE(kind.name);
    refused(std::string(kind.bytes), {path("book.txt"), kind.name, kind.remedy});
    refused(gzip(std::string(kind.bytes)), {"in gzip", kind.remedy});
    EXPECT_EQ(read_text_file(put("a.bin", kind.bytes), TextKind::name), kind.bytes);
  }
  std::string program = "MZ" + std::string(58, '\0') + "\x40" + std::string(3, '\0') + "PE";
  refused(program + std::string(2, '\0'), {"is a program (Windows)"});
  refused("BM\x10" + std::string(13, '\0'), {"is a BMP image"});
}

// What begins like a format without being one.
TEST_F(TextFileTest, TextsAreTexts) {
  for (const std::string text :
       {"MZ is the mark of DOS programs; here it is only a word of some length.", "BM, the firm",
        "BZh is not enough", "PAR1 is not enough", "RIFF is a word", "070701 is a number",
        "the ftyp box", "PK", "version https://example.org/", "Rar! said the lion", "%PD", "7z"})
    EXPECT_EQ(read("book.txt", text), text);
}

}  // namespace
}  // namespace linea
