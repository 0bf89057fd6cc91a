#include "data/safetensors_header.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>
#include <unordered_set>
#include <utility>

#include "base/error.h"
#include "data/json.h"
#include "data/one_line.h"
#include "data/utf8.h"

namespace linea {
namespace {

using json = nlohmann::json;

constexpr char kMetadata[] = "__metadata__";
constexpr size_t kMaxNesting = 4;  // of nested objects and lists; the format needs 3

struct ElementType {
  const char* name;
  size_t bits;
  bool readable = false;
};
constexpr std::array<ElementType, 20> kElementTypes{
    {{"F64", 64, true}, {"F32", 32, true}, {"F16", 16, true}, {"BF16", 16, true}, {"I64", 64, true},
     {"I32", 32, true}, {"U8", 8, true},   {"BOOL", 8, true}, {"U64", 64},        {"U32", 32},
     {"U16", 16},       {"I16", 16},       {"I8", 8},         {"C64", 64},        {"F8_E5M2", 8},
     {"F8_E4M3", 8},    {"F8_E8M0", 8},    {"F6_E2M3", 6},    {"F6_E3M2", 6},     {"F4", 4}}};

const ElementType* find_element_type(std::string_view dtype) {
  for (const ElementType& type : kElementTypes)
    if (dtype == type.name) return &type;
  return nullptr;
}

template <typename... Args>
[[noreturn]] void refuse(const std::string& path, fmt::format_string<Args...> text,
                         Args&&... args) {
  fail(ErrorKind::input, "{}: {}; the file is damaged or not a safetensors file: write it again",
       path, fmt::format(text, std::forward<Args>(args)...));
}

// A SAX handler, which builds no tree: unknown fields cost no memory, and repeated keys and deep
// nesting are detected.
class HeaderReader : public json::json_sax_t {
 public:
  HeaderReader(const std::string& path, ElementTypes types, SafetensorsHeader& header)
      : path_(path), types_(types), header_(header) {}

  bool null() override { return value(Kind::null, "null"); }
  bool boolean(bool flag) override { return value(Kind::other, flag ? "true" : "false"); }
  // Only for numbers with a minus sign, -0 included.
  bool number_integer(int64_t number) override {
    return value(Kind::other, number == 0 ? "-0" : std::to_string(number));
  }
  bool number_unsigned(uint64_t number) override { return value(Kind::integer, {}, number); }
  // Also for integers of more than 64 bits.
  bool number_float(double, const std::string& token) override { return value(Kind::other, token); }
  bool string(std::string& text) override { return value(Kind::text, text); }
  bool binary(json::binary_t&) override { return value(Kind::other, "binary data"); }

  bool start_object(size_t) override {
    value(Kind::object, "an object");
    return open(true);
  }
  bool start_array(size_t) override {
    value(Kind::list, "a list");
    return open(false);
  }
  bool key(std::string& name) override;
  bool end_object() override;
  bool end_array() override {
    keys_.pop_back();
    return true;
  }
  bool parse_error(size_t position, const std::string& token,
                   const json::exception& error) override;

 private:
  enum class Kind { null, integer, text, object, list, other };

  // The number of open objects and lists.
  size_t depth() const { return keys_.size(); }
  bool in_metadata() const { return name_ == kMetadata; }
  std::string where() const {
    return in_metadata() ? "the metadata" : "tensor " + quoted_name(name_);
  }
  bool open(bool object);
  // `text`: the value as shown in messages; for a string, its content.
  bool value(Kind kind, std::string_view text, uint64_t number = 0);
  void field_value(Kind kind, std::string_view text);
  void list_value(Kind kind, std::string_view text, uint64_t number);
  void finish_tensor();

  uint64_t bytes_of_entry() const;

  const std::string& path_;
  ElementTypes types_;
  SafetensorsHeader& header_;
  std::vector<std::unordered_set<std::string>> keys_;  // of each open object; empty for lists
  std::string name_, field_;                           // current keys at depth 1 and 2
  SafetensorsEntry entry_;                             // the current tensor
  std::vector<uint64_t> offsets_;
  struct Ignored {
    std::string first;  // tensor
    size_t count = 0;
  };
  std::map<std::string, Ignored> ignored_;  // by field

 public:
  void finish();  // after the header
};

bool HeaderReader::open(bool object) {
  if (depth() == kMaxNesting)
    refuse(path_, "{} of its header is nested deeper than {} levels", where(), kMaxNesting);
  keys_.emplace_back();
  if (object && depth() == 2) {
    entry_ = SafetensorsEntry{};
    offsets_.clear();
  }
  return true;
}

bool HeaderReader::key(std::string& name) {
  if (!keys_.back().insert(name).second)
    refuse(path_, "its header has the key {} twice{}{}", quoted_name(name),
           depth() > 1 ? " in " : "", depth() > 1 ? where() : "");
  if (depth() == 1) {
    if (name.empty()) refuse(path_, "its header has a tensor with an empty name");
    name_ = name;
  } else if (depth() == 2) {
    field_ = name;
  }
  return true;
}

bool HeaderReader::value(Kind kind, std::string_view text, uint64_t number) {
  if (depth() == 0 && kind != Kind::object) refuse(path_, "its header is not a JSON object");
  if (depth() == 1 && kind != Kind::object && !(in_metadata() && kind == Kind::null))
    refuse(path_, "{} of its header should be an object", where());
  if (depth() == 2) field_value(kind, text);
  if (depth() == 3) list_value(kind, text, number);
  return true;
}

void HeaderReader::field_value(Kind kind, std::string_view text) {
  if (in_metadata()) {
    if (kind != Kind::text)
      refuse(path_, "{} of the metadata should be a string", quoted_name(field_));
    header_.metadata[field_] = text;
  } else if (field_ == "dtype") {
    if (kind != Kind::text) refuse(path_, "dtype of {} should be a string", where());
    entry_.dtype = text;
  } else if (field_ == "shape" || field_ == "data_offsets") {
    if (kind != Kind::list) refuse(path_, "{} of {} should be a list", field_, where());
  } else {
    Ignored& ignored = ignored_[field_];
    if (ignored.count++ == 0) ignored.first = name_;
  }
}

void HeaderReader::list_value(Kind kind, std::string_view text, uint64_t number) {
  const bool is_shape = field_ == "shape";
  if (!is_shape && field_ != "data_offsets") return;  // inside an ignored field
  if (kind != Kind::integer)
    refuse(path_, "{} of {} has {} instead of an integer from 0 to 2^64-1", field_, where(),
           kind == Kind::text ? quoted_name(text) : std::string(text.substr(0, 80)));
  if (is_shape) {
    if (number > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
      refuse(path_, "shape of {} overflows: it has {}, at most 2^63-1 is possible", where(),
             number);
    entry_.shape.push_back(static_cast<int64_t>(number));
  } else {
    offsets_.push_back(number);
  }
}

bool HeaderReader::end_object() {
  const bool was_tensor = depth() == 2 && !in_metadata();
  if (was_tensor) finish_tensor();
  keys_.pop_back();
  return true;
}

std::string format_shape(const std::vector<int64_t>& shape) {
  std::string text;
  for (const int64_t size : shape) {
    if (text.size() > 80) return "[" + text + ",...]";
    text += (text.empty() ? "" : ",") + std::to_string(size);
  }
  return "[" + text + "]";
}

// By its dtype and shape.
uint64_t HeaderReader::bytes_of_entry() const {
  const ElementType* type = find_element_type(entry_.dtype);
  if (type == nullptr || (types_ == ElementTypes::readable && !type->readable)) {
    std::string known;
    for (const ElementType& one : kElementTypes)
      if (one.readable || types_ == ElementTypes::all) known += std::string(" ") + one.name;
    fail(ErrorKind::input, "{}: {} has the dtype {}, which is not one of{}; convert the file",
         path_, where(), quoted_name(entry_.dtype), known);
  }
  // Zeros are excluded, so that an overflow is detected whatever the order of the axes.
  int64_t product = 1;
  bool has_zero = false;
  for (const int64_t size : entry_.shape) {
    has_zero = has_zero || size == 0;
    if (size != 0 && __builtin_mul_overflow(product, size, &product))
      refuse(path_, "shape of {} overflows: the product of {} is 2^63 or more", where(),
             format_shape(entry_.shape));
  }
  if (has_zero) return 0;
  uint64_t units = 0;  // eighths of a byte, or bytes where an element has whole ones
  const bool whole = type->bits % 8 == 0;
  const size_t unit = whole ? type->bits / 8 : type->bits;
  if (__builtin_mul_overflow(static_cast<uint64_t>(product), unit, &units))
    refuse(path_, "shape of {} overflows: {} elements of {} {}", where(), product, unit,
           whole ? "bytes" : "bits");
  if (!whole && units % 8 != 0)
    refuse(path_, "{} has {} elements of {} bits, which are no whole bytes", where(), product,
           unit);
  return whole ? units : units / 8;
}

void HeaderReader::finish_tensor() {
  for (const char* field : {"dtype", "shape", "data_offsets"})
    if (keys_.back().count(field) == 0) refuse(path_, "{} has no {}", where(), field);
  if (offsets_.size() != 2)
    refuse(path_, "data_offsets of {} should be two numbers, not {}", where(), offsets_.size());
  entry_.begin = offsets_[0];
  entry_.end = offsets_[1];
  if (entry_.begin > entry_.end)
    refuse(path_, "data_offsets of {} end before they begin: {} > {}", where(), entry_.begin,
           entry_.end);
  const uint64_t bytes = bytes_of_entry();
  if (bytes != entry_.end - entry_.begin)
    refuse(path_, "{} has {} bytes by its dtype {} and shape {}, but {} by its data_offsets",
           where(), bytes, entry_.dtype, format_shape(entry_.shape), entry_.end - entry_.begin);
  entry_.name = name_;
  header_.entries.push_back(std::move(entry_));
}

bool HeaderReader::parse_error(size_t position, const std::string&, const json::exception& error) {
  // "[json.exception.NAME] reason; last read: 'up to a whole header'"
  std::string reason = error.what();
  const size_t end_of_name = reason.find("] ");
  if (end_of_name != std::string::npos) reason.erase(0, end_of_name + 2);
  reason.resize(std::min({reason.size(), reason.find("; last read"), size_t{200}}));
  refuse(path_, "its header is not JSON at byte {}: {}", position, reason);
}

void HeaderReader::finish() {
  for (const auto& [field, ignored] : ignored_)
    header_.warnings.push_back(
        fmt::format("{}: the unknown field {} of tensor {}{} is ignored", path_, quoted_name(field),
                    quoted_name(ignored.first),
                    ignored.count > 1 ? fmt::format(" and of {} more", ignored.count - 1) : ""));
}

// The ranges, in file order, must be contiguous from the first to the last byte.
void check_ranges(const std::vector<SafetensorsEntry>& sorted, uint64_t data_bytes,
                  const std::string& path) {
  uint64_t end = 0;
  for (const SafetensorsEntry& entry : sorted) {
    if (entry.begin != end)
      refuse(path, "tensor {} begins at byte {} of the data, but {} {}", quoted_name(entry.name),
             entry.begin, entry.begin > end ? "nothing covers the bytes from" : "overlaps those to",
             end);
    end = entry.end;
  }
  if (end != data_bytes)
    refuse(path, "its tensors have {} bytes of data, but the file has {}", end, data_bytes);
}

std::string json_string(const char* what, const std::string& text) {
  if (first_non_utf8(text) != text.size())
    fail(ErrorKind::usage, "{} {} is not UTF-8; convert it", what, quoted_name(text));
  return json(text).dump();
}

}  // namespace

bool can_read_elements(std::string_view dtype) {
  const ElementType* type = find_element_type(dtype);
  return type != nullptr && type->readable;
}

std::string quoted_name(std::string_view text) {
  constexpr size_t kMax = 80;
  // JSON does not escape the control character 0x7F.
  const std::string shown = one_line(dump_json(json(std::string(cut_utf8(text, kMax)))));
  return text.size() > kMax ? shown + "..." : shown;
}

SafetensorsHeader parse_safetensors_header(std::string_view text, uint64_t data_bytes,
                                           const std::string& path, ElementTypes types) {
  // The parser would skip a byte order mark and stop at a zero byte.
  if (text.substr(0, 3) == "\xEF\xBB\xBF") refuse(path, "its header begins with a byte order mark");
  const size_t zero = text.find('\0');
  if (zero != std::string_view::npos)
    refuse(path, "byte {} of its header is zero, which JSON does not allow", zero);
  SafetensorsHeader header;
  HeaderReader reader(path, types, header);
  json::sax_parse(text.begin(), text.end(), &reader);
  reader.finish();
  std::sort(header.entries.begin(), header.entries.end(), [](const auto& left, const auto& right) {
    return std::tie(left.begin, left.end, left.name) < std::tie(right.begin, right.end, right.name);
  });
  check_ranges(header.entries, data_bytes, path);
  return header;
}

std::string format_safetensors_header(const std::vector<SafetensorsEntry>& entries,
                                      const std::map<std::string, std::string>& metadata) {
  std::vector<std::string> fields;
  if (!metadata.empty()) {
    std::vector<std::string> pairs;
    for (const auto& [key, text] : metadata)
      pairs.push_back(json_string("the metadata key", key) + ":" +
                      json_string("the metadata value", text));
    fields.push_back(fmt::format("\"{}\":{{{}}}", kMetadata, fmt::join(pairs, ",")));
  }
  std::set<std::string_view> names;
  for (const SafetensorsEntry& entry : entries) {
    require(!entry.name.empty() && entry.name != kMetadata && names.insert(entry.name).second,
            "a safetensors file cannot hold a tensor named {}; give each a unique name other than "
            "\"\" and \"{}\"",
            quoted_name(entry.name), kMetadata);
    fields.push_back(fmt::format(R"({}:{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})",
                                 json_string("the tensor name", entry.name), entry.dtype,
                                 fmt::join(entry.shape, ","), entry.begin, entry.end));
  }
  std::string text = fmt::format("{{{}", fmt::join(fields, ","));
  text.append((8 - (text.size() + 1) % 8) % 8, ' ');
  text += '}';
  require(
      text.size() <= kMaxSafetensorsHeader,
      "the header of a safetensors file is limited to {} bytes, not {}; shorten names or metadata",
      kMaxSafetensorsHeader, text.size());
  return text;
}

}  // namespace linea
