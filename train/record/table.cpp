#include "train/record/table.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace linea {
namespace {

constexpr size_t kGap = 2;           // between columns
constexpr size_t kNarrowText = 24;   // a column of text is not made narrower
constexpr size_t kMinColumns = 40;   // of an output, however narrow the terminal
constexpr size_t kContinuation = 4;  // blanks before columns that continue a row

bool starts_character(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) != 0x80; }

// Characters of a UTF-8 text.
size_t width_of(const std::string& text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), starts_character));
}

// The byte after the first `columns` characters.
size_t byte_at(const std::string& text, size_t columns) {
  size_t seen = 0;
  for (size_t i = 0; i < text.size(); ++i)
    if (starts_character(text[i]) && seen++ == columns) return i;
  return text.size();
}

std::vector<std::string> lines_in(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t first = 0, end = 0; end != std::string::npos; first = end + 1) {
    end = text.find('\n', first);
    lines.push_back(text.substr(first, end - first));
  }
  return lines;
}

size_t total(const std::vector<size_t>& widths) {
  size_t sum = 0;
  for (const size_t width : widths) sum += width + kGap;
  return sum - kGap;
}

// With the widest texts narrower until the table fits; where it does not with kNarrowText each,
// only those narrower that would not fit into a line of their own.
std::vector<size_t> narrowed(const std::vector<TableColumn>& columns, size_t available,
                             std::vector<size_t> widths) {
  const std::vector<size_t> full = widths;
  while (total(widths) > available) {
    size_t widest = columns.size();
    for (size_t i = 0; i < columns.size(); ++i)
      if (!columns[i].is_number && widths[i] > kNarrowText &&
          (widest == columns.size() || widths[i] > widths[widest]))
        widest = i;
    if (widest == columns.size()) {
      for (size_t i = 0; i < columns.size(); ++i)
        widths[i] = std::min(full[i], available - kContinuation);
      return widths;
    }
    --widths[widest];
  }
  return widths;
}

// Prints the cells of the columns from `first` to before `last`, each in lines of its width.
void print_cells(const std::vector<TableColumn>& columns, const std::vector<size_t>& widths,
                 const std::vector<std::string>& cells, size_t first, size_t last) {
  std::vector<std::vector<std::string>> lines;
  size_t height = 0;
  for (size_t i = first; i < last; ++i) {
    lines.push_back(lines_in(wrapped(cells[i], 0, widths[i])));
    height = std::max(height, lines.back().size());
  }
  for (size_t y = 0; y < height; ++y) {
    std::string text(first == 0 ? 0 : kContinuation, ' ');
    for (size_t i = first; i < last; ++i) {
      const std::string cell = y < lines[i - first].size() ? lines[i - first][y] : "";
      const std::string rest(widths[i] - std::min(widths[i], width_of(cell)), ' ');
      text += (columns[i].is_number ? rest + cell : cell + rest) + std::string(kGap, ' ');
    }
    std::printf("%s\n", text.substr(0, text.find_last_not_of(' ') + 1).c_str());
  }
}

}  // namespace

size_t output_columns() {
  winsize size{};
  if (isatty(STDOUT_FILENO) != 1 || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 ||
      size.ws_col == 0)
    return kColumns;
  return std::max<size_t>(size.ws_col, kMinColumns);
}

std::string wrapped(std::string line, size_t indent, size_t columns) {
  indent = std::min(indent, columns / 2);
  std::string result;
  for (size_t begin = 0; width_of(line) > columns; begin = indent) {
    const size_t limit = byte_at(line, columns);
    const size_t blank = line.rfind(' ', limit);
    const size_t bar = line.find_last_of("|,/", limit - 1);
    const bool at_blank =
        blank != std::string::npos && blank > begin && line.find_first_not_of(' ') < blank;
    const bool at_bar = bar != std::string::npos && bar > begin;
    const size_t end = at_blank ? blank : at_bar ? bar + 1 : limit;
    result += line.substr(0, end) + "\n";
    line = std::string(indent, ' ') + line.substr(at_blank ? end + 1 : end);
  }
  return result + line;
}

void print_wrapped(const std::string& line, size_t indent) {
  std::printf("%s\n", wrapped(line, indent, std::min(output_columns(), kColumns)).c_str());
}

void print_table(const std::vector<TableColumn>& columns,
                 const std::vector<std::vector<std::string>>& rows) {
  const size_t available = output_columns();
  std::vector<std::vector<std::string>> lines(1);
  for (const TableColumn& column : columns) lines[0].push_back(column.title);
  lines.insert(lines.end(), rows.begin(), rows.end());
  std::vector<size_t> widths(columns.size());
  for (const std::vector<std::string>& line : lines)
    for (size_t i = 0; i < columns.size(); ++i) widths[i] = std::max(widths[i], width_of(line[i]));
  widths = narrowed(columns, available, widths);
  std::vector<size_t> ends;  // of the columns of each line of a row
  for (size_t i = 0, used = 0; i < columns.size(); ++i) {
    if (i > 0 && used + widths[i] > available) {
      ends.push_back(i);
      used = kContinuation;
    }
    used += widths[i] + kGap;
  }
  ends.push_back(columns.size());
  for (const std::vector<std::string>& line : lines) {
    size_t first = 0;
    for (const size_t end : ends) {
      print_cells(columns, widths, line, first, end);
      first = end;
    }
  }
}

}  // namespace linea
