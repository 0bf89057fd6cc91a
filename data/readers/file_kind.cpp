#include "data/readers/file_kind.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdint>

#include "data/utf8.h"

namespace linea {
namespace {

using namespace std::string_view_literals;

constexpr const char* kOther = "name a file of text";
constexpr const char* kImage = "name a file of text; task images reads a folder of images";
constexpr const char* kDocument = "save it as plain text, or convert it by pandoc -t plain";
constexpr const char* kTable = "write its texts to a plain file";

// Formats with bytes of their own at one place, and at the beginning.
struct Start {
  size_t offset;
  std::string_view bytes;
  const char *name, *remedy;
  std::string_view first = {};
};
constexpr const char* kUntar = "unpack it by tar -xf and name a file in it";
constexpr Start kStarts[] = {
    {0, kGzipStart, "gzip", "unpack it by gzip -d"},
    {0, kZipStart, "a zip archive", "unpack it by unzip"},
    {0, "PK\5\6"sv, "an empty zip archive", kOther},
    {257, "ustar\0"sv, "a tar archive", kUntar},
    {257, "ustar  \0"sv, "a tar archive", kUntar},
    {4, "1AY&SY"sv, "bzip2", "unpack it by bzip2 -d", "BZh"},
    {4, "\x17\x72\x45\x38\x50\x90"sv, "empty bzip2", kOther, "BZh"},
    {0, "\xFD\x37zXZ\0"sv, "xz", "unpack it by xz -d"},
    {0, "\x5D\0\0\x80\0"sv, "lzma", "unpack it by xz -d"},
    {0, "LZIP\1"sv, "lzip", "unpack it by lzip -d"},
    {0, "\x28\xB5\x2F\xFD"sv, "zstd", "unpack it by zstd -d"},
    {0, "\4\x22\x4D\x18"sv, "lz4", "unpack it by lz4 -d"},
    {0, "\x1F\x9D"sv, "compress", "unpack it by gzip -d"},
    {0, "7z\xBC\xAF\x27\x1C"sv, "a 7-Zip archive", "unpack it by 7z x and name a file in it"},
    {0, "Rar!\x1A\7"sv, "a RAR archive", "unpack it by unrar x and name a file in it"},
    {0, "MSCF\0\0\0\0"sv, "a cabinet archive", "unpack it by cabextract and name a file in it"},
    {0, "!<arch>\n"sv, "an ar archive", "unpack it by ar x and name a file in it"},
    {0, "\xED\xAB\xEE\xDB"sv, "an RPM package", "unpack it by rpm2cpio and name a file in it"},
    {0, "%PDF-"sv, "a PDF document", "convert it by pdftotext"},
    {0, "AT&TFORM"sv, "a DjVu document", "convert it by djvutxt"},
    {60, "BOOKMOBI"sv, "a MOBI book", "convert it by ebook-convert"},
    {0, "{\\rtf"sv, "an RTF document", kDocument},
    {0, "\xD0\xCF\x11\xE0\xA1\xB1\x1A\xE1"sv, "an old Office document",
     "save it as plain text, or convert it by soffice --convert-to txt"},
    {0, "\x89PNG\r\n\x1A\n"sv, "a PNG image", kImage},
    {0, "\xFF\xD8\xFF"sv, "a JPEG image", kImage},
    {0, "GIF87a"sv, "a GIF image", kImage},
    {0, "GIF89a"sv, "a GIF image", kImage},
    {0, "II*\0"sv, "a TIFF image", kImage},
    {0, "MM\0*"sv, "a TIFF image", kImage},
    {0, "8BPS\0\1"sv, "a Photoshop image", kImage},
    {8, "WEBPVP8"sv, "a WebP image", kImage, "RIFF"},
    {8, "WAVEfmt "sv, "a WAV sound", kOther, "RIFF"},
    {8, "AVI LIST"sv, "an AVI video", kOther, "RIFF"},
    {4, "ftyp"sv, "an MP4 or HEIC file", kOther, "\0"sv},
    {0, "\x1A\x45\xDF\xA3"sv, "a Matroska video", kOther},
    {0, "OggS\0"sv, "an Ogg sound", kOther},
    {0, "fLaC\0\0\0\x22"sv, "a FLAC sound", kOther},
    {0, "ID3\3"sv, "an MP3 sound", kOther},
    {0, "ID3\4"sv, "an MP3 sound", kOther},
    {0,
     "\x7F"
     "ELF"sv,
     "a program (ELF)", kOther},
    {0, "\xCF\xFA\xED\xFE"sv, "a program (Mach-O)", kOther},
    {0, "\xCA\xFE\xBA\xBE"sv, "a program (Java or Mach-O)", kOther},
    {0, "\0asm"sv, "a program (WebAssembly)", kOther},
    {0, "SQLite format 3\0"sv, "an SQLite database", "write its texts to a file by sqlite3"},
    {0, "\x89HDF\r\n\x1A\n"sv, "an HDF5 file", kTable},
    {0, "\x93NUMPY"sv, "a NumPy array", kTable},
    {0, "ARROW1\0\0"sv, "an Arrow table", kTable},
    {0, "GGUF\3\0\0\0"sv, "a GGUF model", kOther},
    {0, "version https://git-lfs.github.com/spec/"sv, "a pointer of Git LFS, not the file itself",
     "fetch the file by git lfs pull"},
};

bool has_at(std::string_view bytes, size_t offset, std::string_view part) {
  return bytes.size() >= offset && bytes.substr(offset).starts_with(part);
}

uint64_t little_endian_at(std::string_view bytes, size_t offset, size_t length) {
  uint64_t value = 0;
  for (size_t i = length; i-- > 0;)
    value = value << 8 | static_cast<unsigned char>(bytes[offset + i]);
  return value;
}

// A header of tar from before ustar: 512 bytes whose sum, with the eight of the sum itself as
// blanks, is in octal at byte 148.
bool is_old_tar(std::string_view bytes) {
  if (bytes.size() < 512 || bytes[0] == '\0') return false;
  uint64_t sum = 0, stored = 0;
  for (size_t i = 0; i < 512; ++i)
    sum += i >= 148 && i < 156 ? ' ' : static_cast<unsigned char>(bytes[i]);
  size_t i = 148;
  while (i < 156 && bytes[i] == ' ') ++i;
  for (; i < 156 && bytes[i] >= '0' && bytes[i] <= '7'; ++i)
    stored = stored * 8 + static_cast<uint64_t>(bytes[i] - '0');
  return sum == stored;
}

bool is_cpio(std::string_view bytes) {
  constexpr size_t kHeader = 110;  // six characters, then 13 numbers of eight hexadecimal digits
  const std::string_view header = bytes.substr(0, kHeader);
  return header.size() == kHeader && (has_at(bytes, 0, "070701") || has_at(bytes, 0, "070702")) &&
         std::all_of(header.begin(), header.end(),
                     [](unsigned char c) { return std::isxdigit(c) != 0; });
}

// A length below the file's size, and a JSON object.
bool is_safetensors(std::string_view bytes, uint64_t file_bytes) {
  return bytes.size() > 10 && little_endian_at(bytes, 0, 8) <= file_bytes - 8 &&
         little_endian_at(bytes, 0, 8) > 1 && has_at(bytes, 8, "{\"");
}

// The header of DOS names the place of the one of Windows.
bool is_windows_program(std::string_view bytes) {
  return bytes.size() >= 64 && bytes.starts_with("MZ") &&
         has_at(bytes, little_endian_at(bytes, 60, 4), "PE\0\0"sv);
}

bool is_bitmap(std::string_view bytes, uint64_t file_bytes) {
  return bytes.size() >= 14 && bytes.starts_with("BM") &&
         little_endian_at(bytes, 2, 4) == file_bytes && little_endian_at(bytes, 6, 4) == 0;
}

// A text whose every second byte, or three of four, is 0, as ASCII is in UTF-16 and UTF-32.
// Returns the name of that encoding, or "".
std::string wide_encoding(std::string_view text) {
  const std::string_view start = text.substr(0, std::min<size_t>(text.size(), 4096) / 4 * 4);
  size_t zeros[4] = {};
  for (size_t i = 0; i < start.size(); ++i) zeros[i % 4] += start[i] == '\0';
  const size_t quarter = start.size() / 4;
  const auto all = [&](size_t i) { return quarter > 1 && zeros[i] * 10 >= quarter * 9; };
  const auto none = [&](size_t i) { return zeros[i] * 10 <= quarter; };
  if (none(0) && all(1) && all(2) && all(3)) return "UTF-32LE";
  if (all(0) && all(1) && all(2) && none(3)) return "UTF-32BE";
  if (none(0) && all(1) && none(2) && all(3)) return "UTF-16LE";
  if (all(0) && none(1) && all(2) && none(3)) return "UTF-16BE";
  return "";
}

std::string convert_from(const std::string& name, const char* is = "is") {
  return fmt::format(" (it {} {}; convert it by iconv -f {} -t UTF-8)", is, name, name);
}

// At the end of a text: the first byte of a character and some of its next ones.
bool is_cut_character(std::string_view end) {
  const auto is_next = [](char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; };
  return end.size() < 4 && static_cast<unsigned char>(end[0]) >= 0xC0 &&
         std::all_of(end.begin() + 1, end.end(), is_next);
}

// Letters of one byte each among ASCII: more than half of the bytes above ASCII are not UTF-8, and
// no control characters.
std::string single_byte_hint(std::string_view text) {
  size_t stray = 0, valid = 0, windows = 0;
  for (size_t position = 0; position < text.size();) {
    const auto byte = static_cast<unsigned char>(text[position]);
    if (byte < 0x20 && (byte < '\t' || byte > '\r') && byte != 0x1A) return "";
    const size_t start = position;
    if (next_character(text, position) == kNotUtf8) {
      if (is_cut_character(text.substr(position))) break;
      ++position;
      ++stray;
      windows += byte >= 0x80 && byte < 0xA0;
    } else if (position - start > 1) {
      ++valid;
    }
  }
  if (stray == 0) return "";
  if (valid > stray)
    return fmt::format(
        " (most of it is UTF-8; leave the other bytes out by iconv -c -f UTF-8 -t UTF-8)");
  return convert_from(windows > 0 ? "WINDOWS-1252" : "ISO-8859-1", "seems to be");
}

}  // namespace

std::optional<FileKind> foreign_kind(std::string_view bytes, uint64_t file_bytes) {
  for (const Start& start : kStarts) {
    if (has_at(bytes, start.offset, start.bytes) && bytes.starts_with(start.first))
      return FileKind{start.name, start.remedy};
  }
  if (is_old_tar(bytes)) return FileKind{"a tar archive", kUntar};
  if (is_cpio(bytes))
    return FileKind{"a cpio archive", "unpack it by cpio -id and name a file in it"};
  if (is_safetensors(bytes, file_bytes)) return FileKind{"a safetensors file", kOther};
  if (is_windows_program(bytes)) return FileKind{"a program (Windows)", kOther};
  if (is_bitmap(bytes, file_bytes)) return FileKind{"a BMP image", kImage};
  if (bytes.size() >= 12 && bytes.starts_with("PAR1") && bytes.ends_with("PAR1"))
    return FileKind{"a Parquet table", kTable};
  if (file_bytes < 1024 && bytes.starts_with("/annex/objects/"))
    return FileKind{"a pointer of git-annex, not the file itself",
                    "fetch the file by git annex get"};
  return std::nullopt;
}

std::optional<FileKind> package_kind(const std::vector<std::string>& names) {
  const auto any = [&](const auto& matches) {
    return std::any_of(names.begin(), names.end(), matches);
  };
  const auto has = [&](std::string_view name) {
    return any([&](const std::string& one) { return one == name; });
  };
  const auto in = [&](std::string_view folder) {
    return any([&](const std::string& one) { return one.starts_with(folder); });
  };
  const auto ending = [&](std::string_view end) {
    return any([&](const std::string& one) { return one.ends_with(end); });
  };
  if (has("[Content_Types].xml")) {
    if (in("word/")) return FileKind{"a Word document (.docx)", kDocument};
    if (in("xl/")) return FileKind{"an Excel workbook (.xlsx)", "save it as CSV"};
    if (in("ppt/")) return FileKind{"a PowerPoint file (.pptx)", "save it as plain text"};
    return FileKind{"an Office document", "save it as plain text"};
  }
  if (has("META-INF/container.xml")) return FileKind{"an EPUB book", kDocument};
  if (has("mimetype") && has("content.xml"))
    return FileKind{"an OpenDocument file (.odt)", kDocument};
  if (in("Index/") && ending(".iwa")) return FileKind{"a Pages document", "save it as plain text"};
  if (has("META-INF/MANIFEST.MF")) return FileKind{"a Java archive", kOther};
  if (ending("/data.pkl")) return FileKind{"a PyTorch file", kOther};
  if (!names.empty() && std::all_of(names.begin(), names.end(),
                                    [](const std::string& name) { return name.ends_with(".npy"); }))
    return FileKind{"NumPy arrays (.npz)", kTable};
  return std::nullopt;
}

std::string encoding_hint(std::string_view text) {
  if (text.starts_with("\xFF\xFE\0\0"sv) || text.starts_with("\0\0\xFE\xFF"sv))
    return convert_from("UTF-32");
  if (text.starts_with("\xFF\xFE") || text.starts_with("\xFE\xFF")) return convert_from("UTF-16");
  if (const std::string name = wide_encoding(text); !name.empty())
    return convert_from(name, "seems to be");
  return single_byte_hint(text);
}

}  // namespace linea
