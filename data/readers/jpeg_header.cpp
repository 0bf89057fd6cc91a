// A JPEG is a list of segments (0xFF, marker, length of two bytes, content); coded data may follow
// each, where 0xFF is followed by 0 or a restart marker. The segments are read one by one, because
// one may embed a thumbnail with an end marker of its own.
#include <algorithm>
#include <vector>

#include "base/error.h"
#include "data/readers/image_header.h"

namespace linea {
namespace {

using namespace std::string_view_literals;

constexpr size_t kHuffmanTables = 0xC4, kExtension = 0xC8, kArithmeticTables = 0xCC,
                 kRestart = 0xD0, kRestarts = 8, kEnd = 0xD9, kScan = 0xDA,
                 kQuantizationTables = 0xDB, kHierarchy = 0xDE, kJfif = 0xE0, kExif = 0xE1,
                 kAdobe = 0xEE, kLossless = 0xF7;
constexpr size_t kFirstFrame = 0xC0, kLastFrame = 0xCF, kProgressive = 0xC2;
constexpr size_t kRgbTransform = 0, kYcckTransform = 2;  // of the Adobe segment

// The kind of a frame that stb does not read, "" for one that it reads.
std::string unsupported_kind(size_t marker) {
  switch (marker) {
    case 0xC0:
    case 0xC1:
    case kProgressive:
      return "";
    case 0xC3:
    case 0xCB:
      return "a lossless JPEG";
    case kLossless:
      return "a lossless JPEG (JPEG-LS)";
    case 0xC9:
    case 0xCA:
      return "an arithmetic-coded JPEG";
    default:
      return "a hierarchical JPEG";
  }
}

bool is_frame(size_t marker) {
  return (marker >= kFirstFrame && marker <= kLastFrame && marker != kHuffmanTables &&
          marker != kExtension && marker != kArithmeticTables) ||
         marker == kHierarchy || marker == kLossless;
}

// A bit for each table that is defined.
using Tables = uint32_t;
Tables huffman_bit(size_t table_class, size_t number) {  // class 0: DC, 1: AC
  return number < 4 && table_class < 2 ? 1u << (table_class * 4 + number) : 0;
}
Tables quantization_bit(size_t number) { return number < 4 ? 1u << number : 0; }

struct Component {
  size_t id = 0, quantization = 0;
  bool has_scan = false;
};

class JpegCheck {
 public:
  JpegCheck(std::string& bytes, const std::string& name) : bytes_(bytes), name_(name) {}

  ImageHeader run() {
    read_segments();
    if (components_.empty()) fail_damaged(name_, "the JPEG has no frame");
    if (!has_scan_) fail_damaged(name_, "the JPEG has no scan");
    for (const Component& component : components_)
      if (!component.has_scan)
        fail_damaged(name_, fmt::format("the JPEG's component {} has no scan", component.id));
    check_image_size(header_, name_);
    // A byte holds at most 8 codes, each of 8 x 32 pixels, for two components.
    constexpr int64_t kMaxPixels = 1024;
    check_encoded_size(header_, name_, header_.width * header_.height / kMaxPixels, bytes_);
    name_colors();
    return header_;
  }

 private:
  size_t at(size_t position) const { return byte_at(bytes_, position); }
  size_t word(size_t position) const { return at(position) << 8 | at(position + 1); }

  void read_segments() {
    size_t position = 2;
    while (position + 1 < bytes_.size()) {
      const size_t marker = at(position) == 0xFF ? at(position + 1) : 0;
      if (marker == kEnd) return;
      const bool is_segment =
          marker != 0 && marker != 0xFF && (marker < kRestart || marker >= kRestart + kRestarts);
      if (!is_segment) {
        ++position;
        continue;
      }
      if (position + 3 >= bytes_.size()) break;
      const size_t end = position + 2 + word(position + 2);
      if (end > bytes_.size()) break;
      if (end < position + 4)
        fail_damaged(name_, fmt::format("the JPEG's segment at byte {} has no length", position));
      read_segment(marker, position, end);
      position = end;
    }
    fail_damaged(name_, fmt::format("the JPEG has {} bytes and no end marker", bytes_.size()));
  }

  void read_segment(size_t marker, size_t position, size_t end) {
    const size_t start = position + 4;
    const std::string_view content = std::string_view(bytes_).substr(start, end - start);
    if (marker == kHuffmanTables) read_huffman_tables(start, end);
    if (marker == kQuantizationTables) read_quantization_tables(start, end);
    if (is_frame(marker)) read_frame(marker, start, end);
    if (marker == kScan) read_scan(position, end);
    if (has_scan_) return;
    if (marker == kExif && content.starts_with("Exif\0\0"sv) && !has_exif_) {
      has_exif_ = true;
      header_.orientation = exif_orientation(content);
    }
    has_jfif_ = has_jfif_ || (marker == kJfif && content.starts_with("JFIF\0"sv));
    if (marker == kAdobe && content.starts_with("Adobe\0"sv) && content.size() >= 12)
      transform_ = start + 11;
  }

  // stb writes out of bounds for a table of more than 256 codes.
  void read_huffman_tables(size_t table, size_t end) {
    constexpr size_t kCounts = 16, kMaxCodes = 256;  // codes of 1 to 16 bits
    while (table < end) {
      size_t codes = 0;
      if (end - table > kCounts)
        for (size_t i = 1; i <= kCounts; ++i) codes += at(table + i);
      if (end - table <= kCounts || codes > kMaxCodes || codes > end - table - kCounts - 1)
        fail_damaged(name_,
                     fmt::format("the JPEG's Huffman table at byte {} has the wrong size", table));
      huffman_ |= huffman_bit(at(table) >> 4, at(table) & 15);
      table += 1 + kCounts + codes;
    }
  }

  void read_quantization_tables(size_t table, size_t end) {
    if (progressive_ && has_scan_)  // stb would apply the last ones to all scans
      fail_unsupported(name_, "a progressive JPEG whose quantization tables change");
    while (table < end) {
      quantization_ |= quantization_bit(at(table) & 15);
      table += 1 + 64 * (at(table) >> 4 == 0 ? 1 : 2);
    }
    if (table > end) fail_damaged(name_, "the JPEG's quantization tables have the wrong size");
  }

  void read_frame(size_t marker, size_t start, size_t end) {
    if (const std::string kind = unsupported_kind(marker); !kind.empty())
      fail_unsupported(name_, kind);
    constexpr size_t kFixed = 6, kEntry = 3;
    if (!components_.empty()) fail_damaged(name_, "the JPEG has two frames");
    if (end - start < kFixed || end - start != kFixed + kEntry * at(start + 5))
      fail_damaged(name_, fmt::format("the JPEG's frame at byte {} has the wrong size", start));
    if (at(start) != 8) fail_unsupported(name_, fmt::format("a {}-bit JPEG", at(start)));
    header_.height = static_cast<int64_t>(word(start + 1));
    header_.width = static_cast<int64_t>(word(start + 3));
    if (header_.height == 0) fail_unsupported(name_, "a JPEG whose height follows its first scan");
    const size_t count = at(start + 5);
    if (count != 1 && count != 3 && count != 4)
      fail_unsupported(name_, fmt::format("a JPEG of {} components", count));
    progressive_ = marker == kProgressive;
    for (size_t entry = start + kFixed; entry < end; entry += kEntry) {
      components_.push_back({at(entry), at(entry + 2)});
      ids_.push_back(entry);
    }
  }

  // A scan of a progressive JPEG has DC coefficients alone, whose refinement needs no Huffman
  // table, or AC coefficients alone.
  void read_scan(size_t position, size_t end) {
    const size_t start = position + 4, count = start < end ? at(start) : 0;
    if (end - start != 4 + 2 * count)
      fail_damaged(name_, fmt::format("the JPEG's scan at byte {} has the wrong size", position));
    const size_t first = at(end - 3), refined = at(end - 1) >> 4;
    const bool dc = !progressive_ || (first == 0 && refined == 0);
    const bool ac = !progressive_ || first != 0;
    for (size_t entry = start + 1; entry < end - 3; entry += 2) {
      const auto component =
          std::find_if(components_.begin(), components_.end(),
                       [&](const Component& candidate) { return candidate.id == at(entry); });
      if (component == components_.end())
        fail_damaged(name_, fmt::format("the JPEG's scan at byte {} names component {}, which is "
                                        "not in its frame",
                                        position, at(entry)));
      const size_t numbers = at(entry + 1);
      const Tables needed =
          (dc ? huffman_bit(0, numbers >> 4) : 0) | (ac ? huffman_bit(1, numbers & 15) : 0);
      if ((huffman_ & needed) != needed)
        fail_damaged(name_,
                     fmt::format("the JPEG's scan at byte {} has no Huffman table", position));
      if ((quantization_ & quantization_bit(component->quantization)) == 0)
        fail_damaged(name_,
                     fmt::format("the JPEG's scan at byte {} has no quantization table", position));
      component->has_scan = component->has_scan || dc;
      ids_.push_back(entry);
    }
    if (end + 1 < bytes_.size() && at(end) == 0xFF && at(end + 1) != 0)
      fail_damaged(name_, fmt::format("the JPEG's scan at byte {} is empty", position));
    has_scan_ = true;
  }

  // libjpeg's choice of the color space, by segments that stb reads otherwise or not at all: four
  // components are CMYK without an Adobe segment and YCCK where it says neither; three of a file
  // with JFIF's segment are YCbCr, whatever their ids.
  void name_colors() {
    constexpr std::string_view kCmyk(
        "\xFF\xEE\0\x0E"
        "Adobe\0\x64\0\0\0\0\0",
        16);
    const bool has_adobe = transform_ != 0;
    if (components_.size() == 4 && has_adobe && at(transform_) != kRgbTransform)
      bytes_[transform_] = static_cast<char>(kYcckTransform);
    if (components_.size() == 4 && !has_adobe) bytes_.insert(2, kCmyk);
    const bool is_ycc = has_jfif_ || (has_adobe && at(transform_) != kRgbTransform);
    if (components_.size() != 3 || !is_ycc || components_[0].id != 'R' ||
        components_[1].id != 'G' || components_[2].id != 'B')
      return;
    for (const size_t id : ids_) bytes_[id] = bytes_[id] == 'R' ? 1 : bytes_[id] == 'G' ? 2 : 3;
  }

  std::string& bytes_;
  const std::string& name_;
  ImageHeader header_;
  std::vector<Component> components_;
  std::vector<size_t> ids_;  // where bytes_ names components
  Tables huffman_ = 0, quantization_ = 0;
  size_t transform_ = 0;  // the position of the Adobe segment's transform; 0 without one
  bool progressive_ = false, has_scan_ = false, has_exif_ = false, has_jfif_ = false;
};

}  // namespace

ImageHeader check_jpeg(std::string& bytes, const std::string& name) {
  return JpegCheck(bytes, name).run();
}

}  // namespace linea
