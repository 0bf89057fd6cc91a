// Headers, good and bad, for every sentence of how safetensors files are read.
#include "data/safetensors_header.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "tests/data/safetensors_bytes.h"

namespace linea {
namespace {

using SafetensorsHeaderTest = DataTest;

TEST_F(SafetensorsHeaderTest, TheHeaderSizeIsCheckedBeforeAnyAllocation) {
  for (const uint64_t size : {~uint64_t{0}, uint64_t{1} << 63, uint64_t{100'000'001}})
    expect_error(ErrorKind::input, {std::to_string(size), "more than the 100000000"},
                 [&] { SafetensorsFile::parse(size_bytes(size) + "{}"); });
  expect_error(ErrorKind::input, {"100000000 bytes, but 2 bytes follow"},
               [&] { SafetensorsFile::parse(size_bytes(100'000'000) + "{}"); });
  expect_error(ErrorKind::input, {"3 bytes, but 2 bytes follow"},
               [&] { SafetensorsFile::parse(size_bytes(3) + "{}"); });
  expect_error(ErrorKind::input, {"has 7 bytes"},
               [&] { SafetensorsFile::parse(size_bytes(2).substr(0, 7)); });
  expect_error(ErrorKind::input, {"has 0 bytes"}, [&] { SafetensorsFile::parse(""); });
  // The limit itself is allowed, one more is not, also where the file is large enough.
  for (const uint64_t size : {100'000'000, 100'000'001}) {
    put("large", size_bytes(size));
    std::filesystem::resize_file(path("large"), 100'000'100);
    expect_error(
        ErrorKind::input,
        {path("large"), size == 100'000'000 ? "byte 0 of its header is zero" : "more than"},
        [&] { SafetensorsFile::open(path("large")); });
  }
}

TEST(SafetensorsHeader, WhiteSpaceAroundTheJsonIsAccepted) {
  EXPECT_TRUE(parse(" \t\r\n{} \n\r\t ").entries().empty());
  EXPECT_EQ(parse("  " + only(tensor("U8", "1", "0,1")) + "   ", "x").entries().size(), 1u);
  EXPECT_EQ(parse("{ \"a\" :\n" + tensor("U8", "1", "0 ,\t1") + "}", "x").entries().size(), 1u);
  for (const char* other : {"\v{}", "{}\f", "\xC2\xA0{}", "{}\x1A"}) refuses(other, "", "not JSON");
}

TEST(SafetensorsHeader, MarksZerosAndCommentsAreRefused) {
  refuses("\xEF\xBB\xBF{}", "", "byte order mark");
  refuses(" \xEF\xBB\xBF{}", "", "not JSON");
  refuses(std::string("{}\0", 3), "", "byte 2 of its header is zero");
  refuses(std::string("{}\0\0\0\0\0\0", 8), "", "zero");
  refuses(std::string("\0{}", 3), "", "zero");
  refuses(std::string("{\"__metadata__\":{\"a\0\":\"\"}}", 25), "", "zero");
  for (const char* text : {"{}//", "{}/**/", "/**/{}", "{/**/}", "{}#"})
    refuses(text, "", "not JSON");
}

TEST(SafetensorsHeader, OnlyAJsonObjectIsAccepted) {
  for (const char* text :
       {"", " ", "{", "}", "{}{}", "{},", "{'a':1}", "{a:1}", "{\"a\"}", "{\"a\":}",
        "{\"__metadata__\":{},}", "{\"__metadata__\":{\"a\":\"\n\"}}", "nul"})
    refuses(text, "", "not JSON at byte");
  for (const char* text : {"[]", "null", "1", "-1", "1.5", "\"a\"", "true", "[{}]"})
    refuses(text, "", "not a JSON object");
  // A message stays short and one line whatever the file says.
  try {
    parse("{\"" + std::string(100000, 'x') + "\n");
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_LT(std::string(error.what()).size(), 400u);
  }
  try {
    parse("{\"\\n\\u001b" + std::string(100000, 'x') + "\":1}");
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_LT(std::string(error.what()).size(), 400u);
    EXPECT_EQ(std::string(error.what()).find_first_of("\n\x1b"), std::string::npos);
  }
}

TEST(SafetensorsHeader, ATensorIsAnObjectWithThreeFields) {
  for (const char* value : {"1", "null", "\"x\"", "[]", "true", "-1", "0.5"})
    refuses(only(value), "", "tensor \"a\" of its header should be an object");
  refuses(only(R"({"shape":[],"data_offsets":[0,0]})"), "", "\"a\" has no dtype");
  refuses(only(R"({"dtype":"U8","data_offsets":[0,0]})"), "", "\"a\" has no shape");
  refuses(only(R"({"dtype":"U8","shape":[]})"), "x", "\"a\" has no data_offsets");
  refuses(only("{}"), "", "\"a\" has no dtype");
  for (const char* value : {"1", "null", "[]", "{}", "-1", "0.5", "false"})
    refuses(only(fmt::format(R"({{"dtype":{},"shape":[],"data_offsets":[0,0]}})", value)), "",
            "dtype of tensor \"a\" should be a string");
  for (const char* value : {"1", "null", "\"\"", "{}", "-1", "0.5", "false"}) {
    refuses(only(fmt::format(R"({{"dtype":"U8","shape":{},"data_offsets":[0,0]}})", value)), "",
            "shape of tensor \"a\" should be a list");
    refuses(only(fmt::format(R"({{"dtype":"U8","shape":[],"data_offsets":{}}})", value)), "",
            "data_offsets of tensor \"a\" should be a list");
  }
  for (const char* offsets : {"", "0", "0,1,1"})
    refuses(only(tensor("U8", "1", offsets)), "x", "should be two numbers");
  // The order of the fields is free.
  EXPECT_TRUE(parse(only(R"({"data_offsets":[0,1],"shape":[1],"dtype":"U8"})"), "x").contains("a"));
}

TEST(SafetensorsHeader, UnknownFieldsAreIgnoredWithAWarning) {
  const std::string more = R"(,"x":1.5,"y":{"dtype":["F32"],"shape":{"z":-0}},"z":[[],[null,"t"]])";
  const SafetensorsFile file = parse(R"({"a":)" + tensor("U8", "1", "0,1", more) + R"(,"b":)" +
                                         tensor("U8", "1", "1,2", more) + "}",
                                     "\5\6");
  ASSERT_EQ(file.warnings().size(), 3u);
  EXPECT_EQ(file.warnings()[0],
            "some.file: the unknown field \"x\" of tensor \"a\" and of 1 more is ignored");
  EXPECT_EQ(file.read("b").to_vector<int32_t>(), std::vector<int32_t>{6});
  EXPECT_EQ(file.entry("a").dtype, "U8");
  for (const char* value : {"null", "true", "0", "-1", "1e5", "\"\"", "{}", "[]"})
    EXPECT_EQ(parse(only(tensor("U8", "", "0,1", fmt::format(",\"x\":{}", value))), "x")
                  .warnings()
                  .size(),
              1u)
        << value;
}

TEST(SafetensorsHeader, AnUnknownDtypeIsNamed) {
  for (const char* dtype : {"I8", "U16", "F8_E4M3", "C64", "f32", "F32 ", ""})
    refuses(only(tensor(dtype, "1", "0,4")), "1234", fmt::format("the dtype \"{}\"", dtype),
            "tensor \"a\"");
}

// Their sizes are those of the format; F4 and F6 need whole bytes.
TEST(SafetensorsHeader, AllTypesOfTheFormatCanBeDescribed) {
  const auto described = [](const std::string& dtype, const std::string& shape, uint64_t bytes) {
    return parse_safetensors_header(only(tensor(dtype, shape, fmt::format("0,{}", bytes))), bytes,
                                    "some.file", ElementTypes::all);
  };
  const std::vector<std::pair<std::string, uint64_t>> types = {
      {"BOOL", 8},    {"U8", 8},   {"I8", 8},      {"F8_E5M2", 8}, {"F8_E4M3", 8},
      {"F8_E8M0", 8}, {"I16", 16}, {"U16", 16},    {"F16", 16},    {"BF16", 16},
      {"I32", 32},    {"U32", 32}, {"F32", 32},    {"C64", 64},    {"F64", 64},
      {"I64", 64},    {"U64", 64}, {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"F4", 4}};
  for (const auto& [dtype, bits] : types) {
    EXPECT_EQ(described(dtype, "2,8", 2 * bits).entries.at(0).dtype, dtype);
    EXPECT_TRUE(described(dtype, "3,0", 0).entries.at(0).shape.size() == 2) << dtype;
    expect_error(ErrorKind::input, {"some.file: ", "by its dtype " + dtype},
                 [&, name = dtype, size = bits] { described(name, "2,8", 2 * size + 1); });
  }
  expect_error(ErrorKind::input, {"3 elements of 4 bits", "whole bytes"},
               [&] { described("F4", "3", 2); });
  expect_error(ErrorKind::input, {"overflows"}, [&] { described("F4", "9223372036854775807", 2); });
  expect_error(ErrorKind::input, {"the dtype \"Q4\"", "F8_E4M3"}, [&] { described("Q4", "2", 1); });
}

TEST(SafetensorsHeader, OffsetsCoverTheFileInAnyOrder) {
  const auto header = [](std::initializer_list<const char*> ranges) {
    std::string text = "{";
    char name = 'a';
    for (const char* range : ranges) {
      uint64_t begin = 0, end = 0;
      std::sscanf(range, "%lu,%lu", &begin, &end);
      text += fmt::format("{}\"{}\":{}", text.size() > 1 ? "," : "", name++,
                          tensor("U8", std::to_string(end - begin), range));
    }
    return text + "}";
  };
  const std::string data = "0123456789";
  std::vector<const char*> ranges{"0,3", "3,7", "7,10"};
  do {
    const SafetensorsFile file = parse(header({ranges[0], ranges[1], ranges[2]}), data);
    EXPECT_EQ(file.entries()[0].begin, 0u);
    EXPECT_EQ(file.entries()[1].begin, 3u);
    EXPECT_EQ(file.entries()[2].begin, 7u);
    for (const SafetensorsEntry& entry : file.entries())
      EXPECT_EQ(file.read(entry.name).to_vector<int32_t>()[0],
                static_cast<int32_t>('0' + entry.begin));
  } while (std::next_permutation(ranges.begin(), ranges.end(), [](auto left, auto right) {
    return std::strcmp(left, right) < 0;
  }));
  refuses(header({"1,10"}), data, "nothing covers the bytes from 0");
  refuses(header({"0,9"}), data, "9 bytes of data, but the file has 10");
  refuses(header({"0,11"}), data, "11 bytes of data, but the file has 10");
  refuses(header({"0,3", "4,10"}), data, "nothing covers the bytes from 3",
          "\"b\" begins at byte 4");
  refuses(header({"4,10", "0,3"}), data, "nothing covers the bytes from 3");
  refuses(header({"0,5", "4,10"}), data, "overlaps those to 5");
  refuses(header({"4,10", "0,5"}), data, "overlaps those to 5");
  refuses(header({"0,10", "0,10"}), data, "overlaps");
  refuses(header({"0,10", "3,5"}), data, "overlaps");
  refuses(only(tensor("U8", "1", "3,2")), data, "end before they begin: 3 > 2");
  refuses(only(tensor("U8", "1", "18446744073709551615,0")), data, "end before they begin");
  refuses(only(tensor("U8", "0", "18446744073709551615,18446744073709551615")), "",
          "nothing covers");
  refuses("{}", "x", "0 bytes of data, but the file has 1");
  // Tensors without elements may be between others and together, but not inside one.
  const SafetensorsFile file =
      parse(header({"5,10", "5,5", "0,0", "10,10", "0,5", "5,5", "0,0"}), data);
  EXPECT_EQ(file.entries().size(), 7u);
  EXPECT_EQ(file.entries()[0].name + file.entries()[1].name + file.entries()[2].name, "cge");
  refuses(header({"0,10", "5,5"}), data, "overlaps");
  refuses(header({"0,10", "11,11"}), data, "nothing covers");
}

TEST(SafetensorsHeader, AShapeThatOverflowsIsRefusedInAnyOrder) {
  const std::string huge = std::to_string(int64_t{1} << 62);
  const auto refused_in_any_order = [](std::vector<std::string> sizes) {
    std::sort(sizes.begin(), sizes.end());
    do {
      for (const char* dtype : {"U8", "F64"})
        refuses(only(tensor(dtype, fmt::format("{}", fmt::join(sizes, ",")), "0,0")), "",
                "shape of tensor \"a\" overflows");
    } while (std::next_permutation(sizes.begin(), sizes.end()));
  };
  refused_in_any_order({"0", huge, huge});
  refused_in_any_order({"0", "4294967296", "4294967296"});  // 2^64, which wraps to 0
  refused_in_any_order({"4294967296", "4294967296"});
  refused_in_any_order({huge, "2", "1", "0"});
  refused_in_any_order({"18446744073709551615", "0"});
  refused_in_any_order({"9223372036854775808", "0", "2"});
  refuses(only(tensor("F64", huge, "0,0")), "", "overflows");  // the bytes: 2^65 wraps to 0
  // The greatest products that fit.
  EXPECT_EQ(parse(only(tensor("F64", "0," + huge, "0,0"))).read("a").numel(), 0);
  EXPECT_EQ(parse(only(tensor("U8", "9223372036854775807,0", "0,0"))).read("a").numel(), 0);
  EXPECT_EQ(parse(only(tensor("U8", "4294967296,2147483647,0", "0,0"))).read("a").numel(), 0);
}

TEST(SafetensorsHeader, AShapeMatchesItsRange) {
  refuses(only(tensor("F32", "2", "0,4")), "1234",
          "has 8 bytes by its dtype F32 and shape [2], but 4");
  refuses(only(tensor("F64", "1", "0,4")), "1234", "has 8 bytes");
  refuses(only(tensor("U8", "0", "0,4")), "1234", "has 0 bytes");
  refuses(only(tensor("U8", "2,0", "0,4")), "1234", "has 0 bytes");
  refuses(only(tensor("U8", "", "0,0")), "", "has 1 bytes");
  refuses(only(tensor("F32", "2", "0,9")), "123456789", "has 8 bytes");
}

TEST(SafetensorsHeader, DuplicateKeysAreRefusedAnywhere) {
  const std::string one = tensor("U8", "0", "0,0");
  refuses(R"({"a":)" + one + R"(,"a":)" + one + "}", "", "the key \"a\" twice");
  refuses(R"({"a":)" + one + R"(,"b":)" + one + R"(,"\u0061":)" + one + "}", "",
          "the key \"a\" twice");
  refuses(R"({"__metadata__":{},"__metadata__":{}})", "", "\"__metadata__\" twice");
  refuses(R"({"__metadata__":null,"__metadata__":null})", "", "\"__metadata__\" twice");
  refuses(R"({"__metadata__":{"k":"1","j":"","k":"1"}})", "", "\"k\" twice in the metadata");
  refuses(only(tensor("U8", "0", "0,0", R"(,"dtype":"U8")")), "",
          "\"dtype\" twice in tensor \"a\"");
  refuses(only(tensor("U8", "0", "0,0", R"(,"shape":[0])")), "", "\"shape\" twice");
  refuses(only(tensor("U8", "0", "0,0", R"(,"data_offsets":[0,0])")), "", "\"data_offsets\" twice");
  refuses(only(tensor("U8", "0", "0,0", R"(,"x":1,"x":1)")), "", "\"x\" twice");
  refuses(only(tensor("U8", "0", "0,0", R"(,"x":{"y":1,"y":1})")), "", "\"y\" twice");
  refuses(only(tensor("U8", "0", "0,0", R"(,"x":[{"y":1},{"y":1,"z":2,"y":1}])")), "",
          "\"y\" twice");
  // A key in two objects is no duplicate.
  EXPECT_EQ(parse(R"({"a":)" + tensor("U8", "0", "0,0", R"(,"x":[{"a":1},{"a":1}])") + R"(,"b":)" +
                  one + R"(,"__metadata__":{"a":"","b":""}})")
                .entries()
                .size(),
            2u);
}

TEST(SafetensorsHeader, AnEmptyNameIsRefused) {
  refuses(R"({"":)" + tensor("U8", "0", "0,0") + "}", "", "empty name");
  EXPECT_EQ(parse(R"({"__metadata__":{"":""}})").metadata().size(), 1u);
}

TEST(SafetensorsHeader, TextIsUtf8WithoutLoneSurrogates) {
  const auto named = [](const std::string& name) {
    return "{\"" + name + "\":" + tensor("U8", "0", "0,0") + "}";
  };
  for (const char* name : {"\xFF", "\xC0\x80", "\xED\xA0\x80", "\xF4\x90\x80\x80", "\xE2\x82",
                           "\x80", "\\ud800", "\\udc00", "\\ud800x", "\\ud800\\u0041",
                           "\\ud800\\ud800", "\\udc00\\ud800", "\\x41", "\\u12"}) {
    refuses(named(name), "", "not JSON at byte");
    refuses(fmt::format("{{\"__metadata__\":{{\"k\":\"{}\"}}}}", name), "", "not JSON at byte");
  }
  EXPECT_TRUE(parse(named("\\ud83d\\ude00")).contains("\xF0\x9F\x98\x80"));
  EXPECT_TRUE(parse(named("\xF0\x9F\x98\x80")).contains("\xF0\x9F\x98\x80"));
  EXPECT_TRUE(parse(named("\\n\\\"\\/")).contains("\n\"/"));
  EXPECT_TRUE(parse(named("\\u0000")).contains(std::string(1, '\0')));
}

TEST(SafetensorsHeader, OnlyPlainIntegersAreIntegers) {
  for (const char* number :
       {"2.0", "-0", "1e0", "1E0", "-1", "-0.0", "0.0", "0e0", "2.5", "-9223372036854775808",
        "18446744073709551616", "1e30", "null", "true", "\"2\"", "[]", "{}", "[2]"}) {
    refuses(only(tensor("U8", number, "0,2")), "12", "shape of tensor \"a\" has");
    refuses(only(tensor("U8", "2", fmt::format("0,{}", number))), "12", "data_offsets of tensor");
    refuses(only(tensor("U8", "2", fmt::format("{},2", number))), "12", "data_offsets of tensor");
  }
  for (const char* shown : {"2.0", "-0", "1e0", "-1"})
    refuses(only(tensor("U8", shown, "0,2")), "12", fmt::format("has {} instead", shown));
  for (const char* number :
       {"02", "+2", "2.", ".2", "0x2", "NaN", "Infinity", "1e999", "--2", "2e"})
    refuses(only(tensor("U8", number, "0,2")), "12", "not JSON at byte");
}

TEST(SafetensorsHeader, ADepthOverFourIsRefused) {
  EXPECT_EQ(parse(only(tensor("U8", "0", "0,0", R"(,"x":[[1]])"))).warnings().size(), 1u);
  EXPECT_EQ(parse(only(tensor("U8", "0", "0,0", R"(,"x":{"y":{}})"))).warnings().size(), 1u);
  for (const char* value :
       {"[[[]]]", R"({"y":{"z":{}}})", R"([{"y":[]}])", R"([[],[{}],[[1,[]]]])"})
    refuses(only(tensor("U8", "0", "0,0", fmt::format(",\"x\":{}", value))), "", "deeper than 4");
  refuses(only(tensor("U8", "0", "0,0", ",\"x\":" + std::string(1000000, '['))), "",
          "deeper than 4");
}

TEST(SafetensorsHeader, MetadataIsNullOrStrings) {
  EXPECT_TRUE(parse(R"({"__metadata__":null})").metadata().empty());
  EXPECT_TRUE(parse(R"({"__metadata__":{}})").metadata().empty());
  EXPECT_EQ(parse(R"({"__metadata__":{"a":"1","b":"\n"}})").metadata().at("b"), "\n");
  for (const char* value : {"1", "null", "true", "[]", "{}", "-0", "0.5"})
    refuses(fmt::format(R"({{"__metadata__":{{"a":{}}}}})", value), "",
            "\"a\" of the metadata should be a string");
  for (const char* value : {"1", "true", "[]", "\"\"", "-1"})
    refuses(fmt::format(R"({{"__metadata__":{}}})", value), "", "the metadata of its header");
  // It is never a tensor.
  refuses(R"({"__metadata__":)" + tensor("U8", "0", "0,0") + "}", "", "\"shape\" of the metadata");
}

TEST_F(SafetensorsHeaderTest, OpensOnlyPlainFiles) {
  expect_error(ErrorKind::input, {path("no"), "no such file"},
               [&] { SafetensorsFile::open(path("no")); });
  expect_error(ErrorKind::input, {path(""), "is a folder"},
               [&] { SafetensorsFile::open(path("")); });
  expect_error(ErrorKind::input, {"/dev/zero"}, [&] { SafetensorsFile::open("/dev/zero"); });
  expect_error(ErrorKind::input, {path("text")},
               [&] { SafetensorsFile::open(put("text", "Hello, world, this is no such file")); });
}

}  // namespace
}  // namespace linea
