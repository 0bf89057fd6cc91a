// Safetensors files read whole, cut and damaged, and written.
#include "data/safetensors.h"

#include <cmath>
#include <limits>

#include "data/files.h"
#include "tests/data/file_size_limit.h"
#include "tests/data/safetensors_bytes.h"

namespace linea {
namespace {

using SafetensorsTest = DataTest;

TEST(Safetensors, ReadsTensorsAndMetadata) {
  const SafetensorsFile file = SafetensorsFile::parse(small_file());
  ASSERT_EQ(file.entries().size(), 2u);
  EXPECT_EQ(file.entries()[0].name, "a");
  EXPECT_EQ(file.entries()[1].name, "b");
  EXPECT_EQ(file.entry("b").dtype, "U8");
  EXPECT_EQ(file.entry("b").begin, 8u);
  EXPECT_EQ(file.entry("b").end, 11u);
  EXPECT_EQ(file.metadata(), (std::map<std::string, std::string>{{"k", "v"}}));
  EXPECT_TRUE(file.warnings().empty());
  EXPECT_TRUE(file.contains("a"));
  EXPECT_FALSE(file.contains("c"));
  EXPECT_EQ(file.read("a").to_vector<float>(), (std::vector<float>{1.5f, -2.0f}));
  EXPECT_EQ(file.read("b").to_vector<int32_t>(), (std::vector<int32_t>{1, 2, 3}));
  expect_error(ErrorKind::input, {"bytes: has no tensor \"c\""}, [&] { file.read("c"); });
}

TEST(Safetensors, EveryTruncationIsRefused) {
  const std::string whole = small_file();
  for (size_t kept = 0; kept < whole.size(); ++kept)
    expect_error(ErrorKind::input, {"cut.file: "},
                 [&] { SafetensorsFile::parse(whole.substr(0, kept), "cut.file"); });
  expect_error(ErrorKind::input, {"11 bytes of data, but the file has 12"},
               [&] { SafetensorsFile::parse(whole + '\0'); });
}

TEST(Safetensors, EveryFlippedBitIsReadOrRefused) {
  const std::string whole = small_file();
  size_t read = 0, refused = 0;
  for (size_t bit = 0; bit < whole.size() * 8; ++bit) {
    std::string bytes = whole;
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << bit % 8));
    try {
      const SafetensorsFile file = SafetensorsFile::parse(bytes);
      for (const SafetensorsEntry& entry : file.entries()) file.read(entry.name);
      ++read;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::input) << error.what();
      ++refused;
    }
  }
  EXPECT_GE(read, 11u * 8u);  // every bit of the data
  EXPECT_GE(refused, read);
}

TEST(Safetensors, SmallestAndUnalignedFilesAreValid) {
  EXPECT_TRUE(parse("{}").entries().empty());
  const Tensor scalar = read_only("F32", "", bytes_of<float>({3.0f}));
  EXPECT_EQ(scalar.shape(), Shape());
  EXPECT_EQ(scalar.item(), 3.0);
  EXPECT_EQ(read_only("F64", "2,0,3", "").shape(), (Shape{2, 0, 3}));
  for (const char* spaces : {"", " ", "  ", "   ", "    ", "     ", "      ", "       "}) {
    const SafetensorsFile file = parse(std::string(R"({"b":)") + tensor("F64", "1", "1,9") +
                                           R"(,"a":)" + tensor("U8", "1", "0,1") + "}" + spaces,
                                       "\7" + bytes_of<double>({0.1}));
    EXPECT_EQ(file.read("a").to_vector<int32_t>(), std::vector<int32_t>{7});
    EXPECT_EQ(file.read("b").to_vector<double>(), std::vector<double>{0.1});
  }
}

TEST(Safetensors, TooManyAxesAreListedButNotRead) {
  const SafetensorsFile file = parse(only(tensor("U8", "1,1,1,1,1,1,1", "0,1")), "x");
  EXPECT_EQ(file.entry("a").shape.size(), 7u);
  expect_error(ErrorKind::input, {"some.file: tensor \"a\" has 7 axes, at most 6"},
               [&] { file.read("a"); });
  EXPECT_EQ(read_only("U8", "1,1,1,1,1,1", "x").shape().rank(), 6);
}

TEST(Safetensors, ReadsEveryDtype) {
  EXPECT_EQ(read_only("F32", "2", bytes_of<float>({1e-45f, -0.0f})).to_vector<float>(),
            (std::vector<float>{1e-45f, -0.0f}));
  EXPECT_EQ(read_only("F64", "2", bytes_of<double>({5e-324, 1e300})).to_vector<double>(),
            (std::vector<double>{5e-324, 1e300}));
  const std::vector<int32_t> extremes{std::numeric_limits<int32_t>::min(), -1,
                                      std::numeric_limits<int32_t>::max()};
  EXPECT_EQ(read_only("I32", "3", bytes_of(extremes)).to_vector<int32_t>(), extremes);
  const std::vector<int64_t> wide(extremes.begin(), extremes.end());
  EXPECT_EQ(read_only("I64", "3", bytes_of(wide)).to_vector<int32_t>(), extremes);
  EXPECT_EQ(read_only("U8", "3", std::string("\0\x7F\xFF", 3)).to_vector<int32_t>(),
            (std::vector<int32_t>{0, 127, 255}));
  EXPECT_EQ(read_only("BOOL", "2", std::string("\1\0", 2)).to_vector<int32_t>(),
            (std::vector<int32_t>{1, 0}));
  EXPECT_EQ(read_only("U8", "2,2", "abcd").shape(), (Shape{2, 2}));
}

TEST(Safetensors, ValuesThatDoNotFitAreRefused) {
  for (const int64_t value : {int64_t{1} << 31, -(int64_t{1} << 31) - 1, int64_t{1} << 32,
                              std::numeric_limits<int64_t>::min()})
    expect_error(ErrorKind::input, {"some.file: tensor \"a\" holds " + std::to_string(value)}, [&] {
      read_only("I64", "2", bytes_of<int64_t>({0, value}));
    });
  expect_error(ErrorKind::input, {"some.file: tensor \"a\" is BOOL and holds 2"},
               [&] { read_only("BOOL", "2", "\1\2"); });
}

// The value of a float of `exponent_bits` and `mantissa_bits`, by its definition.
double small_float(uint32_t bits, int exponent_bits, int mantissa_bits) {
  const double sign = bits >> 15 ? -1 : 1;
  const int exponent = static_cast<int>(bits >> mantissa_bits & ((1u << exponent_bits) - 1));
  const double mantissa = bits & ((1u << mantissa_bits) - 1);
  const int bias = (1 << (exponent_bits - 1)) - 1;
  if (exponent == (1 << exponent_bits) - 1)
    return mantissa == 0 ? sign * INFINITY : std::numeric_limits<double>::quiet_NaN();
  if (exponent == 0) return sign * std::ldexp(mantissa, 1 - bias - mantissa_bits);
  return sign * std::ldexp(mantissa + (1 << mantissa_bits), exponent - bias - mantissa_bits);
}

TEST(Safetensors, EveryFloat16IsReadExactly) {
  std::vector<uint16_t> all(65536);
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<uint16_t>(i);
  for (const bool brain : {false, true}) {
    const std::vector<float> values =
        read_only(brain ? "BF16" : "F16", "256,256", bytes_of(all)).to_vector<float>();
    ASSERT_EQ(values.size(), all.size());
    for (uint32_t i = 0; i < all.size(); ++i) {
      const double expected = brain ? small_float(i, 8, 7) : small_float(i, 5, 10);
      if (std::isnan(expected)) {
        EXPECT_TRUE(std::isnan(values[i])) << i;
      } else {
        ASSERT_EQ(static_cast<double>(values[i]), expected) << i;
        ASSERT_EQ(std::signbit(values[i]), std::signbit(expected)) << i;
      }
    }
  }
}

TEST_F(SafetensorsTest, WritesTheExpectedBytes) {
  write_safetensors(path("file"),
                    {{"w", Tensor::from<float>({1, 2, 3}, {3, 1})},
                     {"a \"b\"\n", Tensor::from<int32_t>({-1}, {})},
                     {"d", Tensor::from<double>({0.5}, {1})}},
                    {{"z", "\xC3\xA9"}, {"b", "{\"x\":1}"}});
  const std::string json = R"({"__metadata__":{"b":"{\"x\":1}","z":")"
                           "\xC3\xA9"
                           R"("},)"
                           R"("w":{"dtype":"F32","shape":[3,1],"data_offsets":[0,12]},)"
                           R"("a \"b\"\n":{"dtype":"I32","shape":[],"data_offsets":[12,16]},)"
                           R"("d":{"dtype":"F64","shape":[1],"data_offsets":[16,24]})";
  const std::string header = json + std::string(7 - json.size() % 8, ' ') + "}";
  ASSERT_EQ(header.size() % 8, 0u);
  EXPECT_EQ(read_file(path("file")),
            file_of(header, bytes_of<float>({1, 2, 3}) + bytes_of<int32_t>({-1}) +
                                bytes_of<double>({0.5})));
}

TEST_F(SafetensorsTest, NoWhiteSpaceAroundTheJsonIsEverWritten) {
  for (size_t length = 1; length <= 16; ++length) {
    write_safetensors(path("file"), {{std::string(length, 'n'), Tensor::zeros({2}, DType::f32)}});
    const std::string bytes = read_file(path("file"));
    EXPECT_EQ((bytes.size() - 8) % 8, 0u);
    EXPECT_EQ(bytes[8], '{');
    EXPECT_EQ(bytes[bytes.size() - 9], '}');
    EXPECT_EQ(bytes.find_first_of("\t\r\n", 8), std::string::npos);
  }
  write_safetensors(path("empty"), {});
  EXPECT_EQ(read_file(path("empty")), size_bytes(8) + "{      }");
  EXPECT_TRUE(SafetensorsFile::open(path("empty")).entries().empty());
}

TEST_F(SafetensorsTest, RoundTrips) {
  const std::vector<float> floats{0.1f, -0.0f, INFINITY, 1e-45f, 3e38f, 7.0f};
  const std::vector<double> doubles{0.1, 5e-324, -INFINITY, 1.7e308};
  const std::vector<int32_t> numbers{1, -1, 1 << 30};
  const std::map<std::string, std::string> metadata{
      {"", "empty"}, {"config", "a = \"b\"\n"}, {"\xF0\x9F\x98\x80", std::string("\0\x7F\t", 3)}};
  const std::string odd = "odd \\ \" / \xF0\x9F\x98\x80 \x01";
  write_safetensors(path("file"),
                    {{"z", Tensor::from(floats, {1, 2, 1, 3, 1, 1})},
                     {odd, Tensor::from(doubles, {2, 2})},
                     {"none", Tensor::zeros({0, 3}, DType::f32)},
                     {"a", Tensor::from(numbers, {3})},
                     {"scalar", Tensor::from<float>({2.5f}, {})},
                     {"row", Tensor::from(floats, {3, 2}).select(1)}},
                    metadata);
  const SafetensorsFile file = SafetensorsFile::open(path("file"));
  EXPECT_EQ(file.metadata(), metadata);
  EXPECT_EQ(file.read("z").to_vector<float>(), floats);
  EXPECT_EQ(file.read("z").shape(), (Shape{1, 2, 1, 3, 1, 1}));
  EXPECT_EQ(file.read(odd).to_vector<double>(), doubles);
  EXPECT_EQ(file.read("none").shape(), (Shape{0, 3}));
  EXPECT_EQ(file.read("a").to_vector<int32_t>(), numbers);
  EXPECT_EQ(file.read("scalar").item(), 2.5);
  EXPECT_EQ(file.read("row").to_vector<float>(), (std::vector<float>{INFINITY, 1e-45f}));
  EXPECT_EQ(file.entries()[0].name, "z");  // in the given order
  EXPECT_EQ(file.read("z").data<float>() == file.read("z").data<float>(), false);  // copies
}

TEST_F(SafetensorsTest, InvalidTensorsAreNotWritten) {
  const Tensor one = Tensor::zeros({1}, DType::f32);
  const auto refused = [&](const std::vector<NamedTensor>& tensors,
                           const std::map<std::string, std::string>& metadata,
                           std::initializer_list<std::string> fragments) {
    expect_error(ErrorKind::usage, fragments,
                 [&] { write_safetensors(path("file"), tensors, metadata); });
    EXPECT_TRUE(std::filesystem::is_empty(path("")));
  };
  refused({{"", one}}, {}, {"a tensor named \"\""});
  refused({{"__metadata__", one}}, {}, {"a tensor named \"__metadata__\""});
  refused({{"a", one}, {"b", one}, {"a", one}}, {}, {"a tensor named \"a\""});
  refused({{"a", Tensor()}}, {}, {"tensor \"a\" is undefined"});
  refused({{"a\xFF", one}}, {}, {"name", "not UTF-8"});
  refused({}, {{"\xED\xA0\x80", ""}}, {"metadata key", "not UTF-8"});
  refused({}, {{"k", "\xC3"}}, {"metadata value", "not UTF-8"});
}

TEST_F(SafetensorsTest, AFullDiskLeavesTheOldFile) {
  put("file", "old");
  {
    const FileSizeLimit limit(1000);
    expect_error(ErrorKind::write, {path("file"), "cannot be written"}, [&] {
      write_safetensors(path("file"), {{"a", Tensor::zeros({1000}, DType::f32)}});
    });
  }
  EXPECT_EQ(read_file(path("file")), "old");
  const std::filesystem::directory_iterator names(path(""));
  EXPECT_EQ(std::distance(begin(names), end(names)), 1);
}

TEST_F(SafetensorsTest, AnOpenFileSurvivesReplacement) {
  const auto write = [&](float value) {
    write_safetensors(path("file"), {{"a", Tensor::full({1000}, DType::f32, value)}});
  };
  write(1);
  const SafetensorsFile file = SafetensorsFile::open(path("file"));
  write(2);
  EXPECT_EQ(file.read("a").to_vector<float>()[999], 1.0f);
  const SafetensorsFile cut = SafetensorsFile::open(path("file"));
  std::filesystem::resize_file(path("file"), 3000);
  expect_error(ErrorKind::input, {path("file"), "ends at byte 3000", "truncated while it was read"},
               [&] { cut.read("a"); });
}

}  // namespace
}  // namespace linea
