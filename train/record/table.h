// Text for a person in lines of a limited width, and tables of such text.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace linea {

constexpr size_t kColumns = 100;  // where no terminal says another width

// Columns of the terminal on stdout; kColumns where there is none.
size_t output_columns();

// The line, broken into lines of at most `columns` characters; each but the first begins with
// `indent` blanks. A line ends before a blank; in a part without blanks, after one of "|,/" or, if
// there is none, anywhere.
std::string wrapped(std::string line, size_t indent, size_t columns);
// Prints a line wrapped to output_columns(), at most kColumns.
void print_wrapped(const std::string& line, size_t indent);

struct TableColumn {
  std::string title;
  bool is_number = false;  // to the right
};
// Prints rows of cells under the titles, columns as wide as their widest cell. A table wider than
// output_columns() has its texts wrapped; if this is not enough, its last columns continue on
// indented lines.
void print_table(const std::vector<TableColumn>& columns,
                 const std::vector<std::vector<std::string>>& rows);

}  // namespace linea
