#include "lab/markdown.h"

#include <algorithm>

#include "base/error.h"
#include "data/chart.h"
#include "lab/formula.h"
#include "lab/number.h"

#if __has_include(<md4c.h>)
#include <md4c.h>
#define LINEA_HAS_MD4C 1
#endif

namespace linea::lab {
namespace {

bool is_number(const std::string& text) {
  return !text.empty() && text.find_first_not_of("0123456789.,e-") == std::string::npos;
}

}  // namespace

std::string plain_text(const std::string& markdown, const MeasuredText& measured) {
  std::string result;
  bool code = false;
  for (size_t i = 0; i < markdown.size(); ++i) {
    const char c = markdown[i];
    if (c == '`') code = !code;
    if (c == '$' && !code) continue;
    const size_t middle = c == '[' && !code ? markdown.find("](", i) : std::string::npos;
    const std::string text =
        middle == std::string::npos ? "" : markdown.substr(i + 1, middle - i - 1);
    if (!is_number(text)) {
      result += c;
      continue;
    }
    size_t end = middle + 2;
    for (int depth = 1; end < markdown.size(); ++end) {
      if (markdown[end] == '(') ++depth;
      if (markdown[end] == ')' && --depth == 0) break;
    }
    std::string target = markdown.substr(middle + 2, end - middle - 2);
    if (!target.empty() && target[0] == '<') target = target.substr(1, target.size() - 2);
    result += target[0] == '@' ? measured(target.substr(1), text) : text;
    i = end;
  }
  return result;
}

#ifdef LINEA_HAS_MD4C

namespace {

const char* element_of(MD_BLOCKTYPE type) {
  switch (type) {
    case MD_BLOCK_P:
      return "p";
    case MD_BLOCK_UL:
      return "ul";
    case MD_BLOCK_OL:
      return "ol";
    case MD_BLOCK_LI:
      return "li";
    case MD_BLOCK_QUOTE:
      return "blockquote";
    case MD_BLOCK_TABLE:
      return "table";
    case MD_BLOCK_THEAD:
      return "thead";
    case MD_BLOCK_TBODY:
      return "tbody";
    case MD_BLOCK_TR:
      return "tr";
    case MD_BLOCK_TH:
      return "th";
    case MD_BLOCK_TD:
      return "td";
    default:
      return "";
  }
}

// What md4c reads, as HTML.
class Writer {
 public:
  explicit Writer(const MeasuredText& measured) : measured_(measured) {}

  std::string write(const std::string& markdown) {
    MD_PARSER parser{};
    parser.flags = MD_FLAG_LATEXMATHSPANS | MD_FLAG_NOHTML | MD_FLAG_TABLES;
    parser.enter_block = [](MD_BLOCKTYPE type, void* detail, void* self) {
      return static_cast<Writer*>(self)->block(type, detail, true);
    };
    parser.leave_block = [](MD_BLOCKTYPE type, void* detail, void* self) {
      return static_cast<Writer*>(self)->block(type, detail, false);
    };
    parser.enter_span = [](MD_SPANTYPE type, void* detail, void* self) {
      return static_cast<Writer*>(self)->enter_span(type, detail);
    };
    parser.leave_span = [](MD_SPANTYPE type, void*, void* self) {
      return static_cast<Writer*>(self)->leave_span(type);
    };
    parser.text = [](MD_TEXTTYPE type, const MD_CHAR* text, MD_SIZE size, void* self) {
      return static_cast<Writer*>(self)->text(type, std::string(text, size));
    };
    if (md_parse(markdown.data(), static_cast<MD_SIZE>(markdown.size()), &parser, this) != 0)
      fail(ErrorKind::memory, "there is no memory to read a lesson");
    return html_;
  }

 private:
  int block(MD_BLOCKTYPE type, void* detail, bool enters) {
    if (type == MD_BLOCK_H) {
      const unsigned level = static_cast<MD_BLOCK_H_DETAIL*>(detail)->level;
      html_ += fmt::format("<{}h{}>{}", enters ? "" : "/", level, enters ? "" : "\n");
    } else if (type == MD_BLOCK_OL && enters) {
      html_ += fmt::format("<ol start=\"{}\">", static_cast<MD_BLOCK_OL_DETAIL*>(detail)->start);
    } else if (type == MD_BLOCK_CODE) {
      html_ += enters ? "<pre><code>" : "</code></pre>\n";
    } else if (const std::string element = element_of(type); !element.empty()) {
      html_ += fmt::format("<{}{}>{}", enters ? "" : "/", element, enters ? "" : "\n");
    }
    return 0;
  }

  int enter_span(MD_SPANTYPE type, void* detail) {
    if (type == MD_SPAN_STRONG) html_ += "<strong>";
    if (type == MD_SPAN_EM) html_ += "<em>";
    if (type == MD_SPAN_CODE) html_ += "<code>";
    if (type == MD_SPAN_LATEXMATH) formula_.clear();
    if (type != MD_SPAN_A) return 0;
    const MD_ATTRIBUTE& href = static_cast<MD_SPAN_A_DETAIL*>(detail)->href;
    target_ = std::string(href.text, href.size);
    link_ = html_.size();
    return 0;
  }
  int leave_span(MD_SPANTYPE type) {
    if (type == MD_SPAN_STRONG) html_ += "</strong>";
    if (type == MD_SPAN_EM) html_ += "</em>";
    if (type == MD_SPAN_CODE) html_ += "</code>";
    if (type == MD_SPAN_LATEXMATH) add_formula();
    if (type == MD_SPAN_A) end_link();
    return 0;
  }
  // Browsers do not break a formula: a long one is several, so that it may be broken before "=".
  void add_formula() {
    constexpr size_t kLong = 24;
    size_t first = 0;
    for (size_t at = 0; (at = formula_.find(" = ", at + 1)) != std::string::npos;) {
      const std::string part = formula_.substr(first, at - first);
      if (formula_.size() < kLong ||
          std::count(part.begin(), part.end(), '(') != std::count(part.begin(), part.end(), ')'))
        continue;
      html_ += math_element(part, false) + " ";
      first = at + 1;
    }
    html_ += math_element(formula_.substr(first), false);
  }
  void end_link() {
    const std::string text = html_.substr(link_);
    html_.resize(link_);
    const std::string rest = target_.substr(std::min<size_t>(1, target_.size()));
    if (target_[0] == '@' && is_number(text))
      html_ += measured_(rest, text);
    else if (target_[0] == '=' && is_number(text))
      html_ += exact_number(text, rest);
    else if (is_number(text))
      html_ += published_number(text, target_);
    else
      html_ += fmt::format("<a href=\"{}\">{}</a>", escape_xml(target_), text);
  }
  int text(MD_TEXTTYPE type, const std::string& text) {
    if (type == MD_TEXT_LATEXMATH)
      formula_ += text;
    else if (type == MD_TEXT_SOFTBR || type == MD_TEXT_BR)
      html_ += "\n";
    else if (type == MD_TEXT_CODE && text == "\n")
      html_ += text;
    else
      html_ += escape_xml(text);
    return 0;
  }

  const MeasuredText& measured_;
  std::string html_, formula_, target_;
  size_t link_ = 0;
};

}  // namespace

std::string to_html(const std::string& markdown, const MeasuredText& measured) {
  return Writer(measured).write(markdown);
}

#else

std::string to_html(const std::string&, const MeasuredText&) {
  fail(ErrorKind::usage,
       "this program was built without md4c, so it writes no pages: install libmd4c-dev and build "
       "it again, or leave --out away");
}

#endif

void check_pages_can_be_made() { static_cast<void>(to_html("", {})); }

}  // namespace linea::lab
