// Wrapped lines and tables.
#include "train/record/table.h"

#include <gtest/gtest.h>

namespace linea {
namespace {

TEST(Table, LinesBreakAtBlanksThenAtBarsThenAnywhere) {
  EXPECT_EQ(wrapped("one two three", 0, 13), "one two three");
  EXPECT_EQ(wrapped("one two three", 0, 12), "one two\nthree");
  EXPECT_EQ(wrapped("name  one two three", 6, 14), "name  one two\n      three");
  EXPECT_EQ(wrapped("aa|bb|cc", 0, 6), "aa|bb|\ncc");
  EXPECT_EQ(wrapped("data = /one/two", 2, 12), "data =\n  /one/two");
  EXPECT_EQ(wrapped("/one/two/three", 2, 9), "/one/two/\n  three");
  EXPECT_EQ(wrapped("abcdefgh", 0, 3), "abc\ndef\ngh");
  EXPECT_EQ(wrapped("    abcdefgh", 4, 8), "    abcd\n    efgh");
}

// A character of several bytes is one column, and is not broken.
TEST(Table, CountsCharacters) {
  EXPECT_EQ(wrapped("\u00e9\u00e9\u00e9 \u00e9", 0, 5), "\u00e9\u00e9\u00e9 \u00e9");
  EXPECT_EQ(wrapped("\u00e9\u00e9\u00e9\u00e9", 0, 3), "\u00e9\u00e9\u00e9\n\u00e9");
}

std::string printed(const std::vector<TableColumn>& columns,
                    const std::vector<std::vector<std::string>>& rows) {
  testing::internal::CaptureStdout();
  print_table(columns, rows);
  return testing::internal::GetCapturedStdout();
}

TEST(Table, ColumnsAreAsWideAsTheirCells) {
  EXPECT_EQ(printed({{"name"}, {"n", true}, {"text"}}, {{"a", "10", "b"}, {"long one", "7", ""}}),
            "name       n  text\n"
            "a         10  b\n"
            "long one   7\n");
}

TEST(Table, TextsWrapAndThenColumnsContinue) {
  const std::string words(60, 'x');
  const std::string table = printed({{"a"}, {"b"}, {"n", true}}, {{words, words + " y", "5"}});
  EXPECT_EQ(table.find(std::string(61, 'x')), std::string::npos);
  std::vector<TableColumn> columns;
  std::vector<std::string> row;
  for (int i = 0; i < 12; ++i) {
    columns.push_back({"column" + std::to_string(i), true});
    row.push_back(std::to_string(1000000 + i));
  }
  const std::string wide = printed(columns, {row});
  EXPECT_EQ(std::count(wide.begin(), wide.end(), '\n'), 4) << wide;
  for (const std::string& text : {table, wide})
    for (size_t first = 0, end; (end = text.find('\n', first)) != text.npos; first = end + 1)
      EXPECT_LE(end - first, 100u) << text;
}

}  // namespace
}  // namespace linea
