#include "data/utf8.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "data/chart.h"
#include "data/json.h"
#include "data/one_line.h"

namespace linea {
namespace {

TEST(Utf8, StrayBytesAreEscaped) {
  const std::pair<std::string, std::string> cases[] = {
      {"", ""},
      {"caf\u00e9 \u20ac \U0001F600\n", "caf\u00e9 \u20ac \U0001F600\n"},
      {"caf\xE9", "caf\\xE9"},
      {"\xE9/run", "\\xE9/run"},
      {"\xC3", "\\xC3"},
      {"\xE2\x82x", "\\xE2\\x82x"},
      {"\xED\xA0\x80", "\\xED\\xA0\\x80"},  // a surrogate
      {"\xC0\xAF", "\\xC0\\xAF"},           // overlong
      {"\xEF\xBF\xBE|\xEF\xBF\xBF", "\\xEF\\xBF\\xBE|\\xEF\\xBF\\xBF"},
      {"\xEF\xBF\xBD", "\xEF\xBF\xBD"}};
  for (const auto& [bytes, text] : cases) {
    EXPECT_EQ(valid_utf8(bytes), text);
    EXPECT_EQ(first_non_utf8(valid_utf8(bytes)), valid_utf8(bytes).size());
    EXPECT_EQ(escape_xml(bytes).find('\xC3') == std::string::npos,
              text.find('\xC3') == std::string::npos);
  }
}

TEST(Utf8, NoCharacterIsCut) {
  const std::string text = "a\u00e9\u20ac\U0001F600";  // of 1, 2, 3 and 4 bytes
  const size_t ends[] = {0, 1, 1, 3, 3, 3, 6, 6, 6, 6, 10, 10};
  for (size_t bytes = 0; bytes < std::size(ends); ++bytes)
    EXPECT_EQ(cut_utf8(text, bytes).size(), ends[bytes]) << bytes;
  const std::string line = one_line(std::string(199, 'a') + "\u20ac\u20ac");
  EXPECT_EQ(line, std::string(199, 'a') + "...");
  EXPECT_EQ(one_line("a\nb\xE9"), "a?b\\xE9");
}

// Whatever the texts and names of a document are, it is written.
TEST(Utf8, JsonIsAlwaysWritten) {
  const nlohmann::ordered_json document = {{"run", "caf\xE9/a"},
                                           {"n\xFF", {1, "\xC3", nullptr, {{"deep", "\x80"}}}}};
  EXPECT_EQ(dump_json(document),
            R"({"run":"caf\\xE9/a","n\\xFF":[1,"\\xC3",null,{"deep":"\\x80"}]})");
  EXPECT_EQ(dump_json(nlohmann::json("\xE9")), R"("\\xE9")");
}

}  // namespace
}  // namespace linea
