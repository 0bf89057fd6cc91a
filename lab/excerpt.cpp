#include "lab/excerpt.h"

#include <algorithm>
#include <cctype>
#include <vector>

#include "base/error.h"

namespace linea::lab {
namespace {

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// The position after the bracket that closes the one at `at`; npos: none does. Comments and texts
// are skipped.
size_t after_closing(const std::string& source, size_t at) {
  int depth = 0;
  for (size_t i = at; i < source.size(); ++i) {
    const char c = source[i];
    if (source.compare(i, 2, "//") == 0) {
      i = source.find('\n', i);
      if (i == std::string::npos) return i;
    } else if (c == '"' || (c == '\'' && !is_word(source[i - 1]))) {
      for (++i; i < source.size() && source[i] != c; ++i)
        if (source[i] == '\\') ++i;
    } else if (c == '(' || c == '{') {
      ++depth;
    } else if (c == ')' || c == '}') {
      if (--depth == 0) return i + 1;
    }
  }
  return std::string::npos;
}

// Where the body begins of a definition whose name is at `at`; npos: this is no definition.
size_t body_of(const std::string& source, size_t at) {
  size_t i = after_closing(source, source.find('(', at));
  while (i < source.size() && source[i] != '{') {
    const char c = source[i];
    if (!is_word(c) && std::isspace(static_cast<unsigned char>(c)) == 0 &&
        std::string("-><&:").find(c) == std::string::npos)
      return std::string::npos;
    ++i;
  }
  return i < source.size() ? i : std::string::npos;
}

size_t line_start(const std::string& source, size_t at) {
  const size_t end = at == 0 ? std::string::npos : source.rfind('\n', at - 1);
  return end == std::string::npos ? 0 : end + 1;
}

// Whether the line belongs to the definition below it: a comment, or the beginning of a
// declaration.
bool is_part(const std::string& line) {
  const size_t first = line.find_first_not_of(' ');
  if (first == std::string::npos) return false;
  if (line.compare(first, 2, "//") == 0) return true;
  return line[first] != '#' && std::string(";{}:").find(line.back()) == std::string::npos;
}

// The lines without their common indent.
std::string without_indent(const std::string& lines) {
  const size_t indent = std::min(lines.find_first_not_of(' '), lines.size());
  std::string result;
  for (size_t at = 0; at < lines.size();) {
    const size_t end = std::min(lines.find('\n', at), lines.size());
    result += lines.substr(std::min(at + indent, end), end - std::min(at + indent, end)) + "\n";
    at = end + 1;
  }
  return result;
}

std::string head_of(const std::string& source) {
  size_t end = 0;
  while (source.compare(end, 2, "//") == 0)
    end = std::min(source.find('\n', end), source.size() - 1) + 1;
  return source.substr(0, end);
}

}  // namespace

std::string excerpt(const std::string& source, const std::string& name) {
  if (name == "head") {
    const std::string head = head_of(source);
    if (!head.empty()) return head;
  }
  for (size_t at = source.find(name + "("); at != std::string::npos;
       at = source.find(name + "(", at + 1)) {
    if (at > 0 && is_word(source[at - 1])) continue;
    const size_t body = body_of(source, at);
    if (body == std::string::npos) continue;
    size_t first = line_start(source, at);
    while (first > 0) {
      const size_t above = line_start(source, first - 1);
      if (!is_part(source.substr(above, first - 1 - above))) break;
      first = above;
    }
    const size_t end = after_closing(source, body);
    if (end != std::string::npos) return without_indent(source.substr(first, end - first));
  }
  fail(ErrorKind::input, "there is no definition of {}", name);
}

}  // namespace linea::lab
