#include "lab/formula.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <iterator>

#include "base/error.h"
#include "data/chart.h"

namespace linea::lab {
namespace {

struct Sign {
  const char *name, *mathml, *tex;
};

constexpr Sign kGreek[] = {
    {"phi", "&#981;", "\\phi"},     {"sigma", "&#963;", "\\sigma"}, {"omega", "&#969;", "\\omega"},
    {"theta", "&#952;", "\\theta"}, {"beta", "&#946;", "\\beta"},   {"pi", "&#960;", "\\pi"},
    {"alpha", "&#945;", "\\alpha"}, {"mu", "&#956;", "\\mu"},
};
constexpr const char* kFunctions[] = {"exp", "log", "ln",   "max", "min",     "cosh",
                                      "cos", "sin", "sinh", "elu", "softmax", "vec"};
constexpr Sign kOperators[] = {
    {"<=", "&#8804;", "\\le"},
    {">=", "&#8805;", "\\ge"},
    {"->", "&#8594;", "\\to"},
    {"<-", "&#8592;", "\\leftarrow"},
    {"...", "&#8230;", "\\ldots"},
    {"+", "+", "+"},
    {"-", "&#8722;", "-"},
    {"=", "=", "="},
    {"<", "&lt;", "<"},
    {">", "&gt;", ">"},
    {"~", "&#8764;", "\\sim"},
    {",", ",", ","},
    {":", ":", ":"},
    {";", ";", ";"},
    {"|", "|", "\\mid"},
    {"&", "&amp;", "\\&"},
};

bool is_letter(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; }
bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

template <typename Table>
const Sign* find_sign(const Table& table, const std::string& name) {
  const auto found = std::find_if(std::begin(table), std::end(table),
                                  [&](const Sign& sign) { return name == sign.name; });
  return found == std::end(table) ? nullptr : &*found;
}

bool is_function(const std::string& word) {
  return std::find(std::begin(kFunctions), std::end(kFunctions), word) != std::end(kFunctions);
}

Formula operator+(const Formula& a, const Formula& b) {
  const bool joined = a.tex.empty() || b.tex.empty() || !is_letter(a.tex.back()) ||
                      !(is_letter(b.tex[0]) || is_digit(b.tex[0]));
  return {a.mathml + b.mathml, a.tex + (joined ? "" : " ") + b.tex};
}

std::string row(const std::string& mathml) { return "<mrow>" + mathml + "</mrow>"; }
Formula letter(const std::string& name) { return {"<mi>" + name + "</mi>", name}; }

// A factor, or a product; what is in brackets that a fraction does not need.
struct Piece {
  Formula whole, inside;
  bool is_text = false;
};

class Parser {
 public:
  Parser(const std::string& text, bool display) : text_(text), display_(display) {}

  Formula expression(const std::string& closing) {
    Formula result;
    while (skip_blanks(), at_ < text_.size() && closing.find(text_[at_]) == std::string::npos) {
      if (const Sign* sign = next_operator()) {
        result = result + Formula{fmt::format("<mo>{}</mo>", sign->mathml), sign->tex};
        continue;
      }
      result = result + term(closing);
    }
    return result;
  }

 private:
  char peek(size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }
  void skip_blanks() {
    while (peek() == ' ') ++at_;
  }
  // A bar opens or closes a length unless it has blanks on both sides.
  bool bar_is_operator() const {
    return at_ > 0 && text_[at_ - 1] == ' ' && (peek(1) == ' ' || peek(1) == '\0');
  }

  const Sign* find_operator() const {
    for (const Sign& sign : kOperators)
      if (text_.compare(at_, std::string(sign.name).size(), sign.name) == 0)
        return sign.name[0] == '|' && !bar_is_operator() ? nullptr : &sign;
    return nullptr;
  }
  const Sign* next_operator() {
    const Sign* sign = find_operator();
    if (sign != nullptr) at_ += std::string(sign->name).size();
    return sign;
  }

  // Factors up to an operator; a "/" between them divides.
  Formula term(const std::string& closing) {
    Formula before;  // text, which is not divided
    Piece product = factors(closing, before);
    if (peek() != '/') return before + product.whole;
    ++at_;
    Formula none;
    const Piece divisor = factors(closing, none);
    if (!none.tex.empty())
      fail(ErrorKind::input, "the formula '{}' has a word below a fraction: write it before",
           text_);
    if (!display_)
      return before + product.whole + Formula{"<mo>/</mo>", "/"} + none + divisor.whole;
    return before +
           Formula{"<mfrac>" + row(product.inside.mathml) + row(divisor.inside.mathml) + "</mfrac>",
                   "\\frac{" + product.inside.tex + "}{" + divisor.inside.tex + "}"};
  }

  Piece factors(const std::string& closing, Formula& before) {
    Piece product;
    size_t count = 0;
    while (skip_blanks(), at_ < text_.size()) {
      if (peek() == '/' || closing.find(peek()) != std::string::npos || find_operator() != nullptr)
        break;
      if ((peek() == '.' || peek() == '*') && count > 0 && at_ + 1 < text_.size()) {
        ++at_;
        product.whole = product.inside = product.whole + Formula{"<mo>&#8901;</mo>", "\\cdot "};
        continue;
      }
      if (peek() == 'x' && peek(1) == ' ' && count > 0 && at_ > 0 && text_[at_ - 1] == ' ') {
        ++at_;
        product.whole = product.inside = product.whole + Formula{"<mo>&#215;</mo>", "\\times "};
        continue;
      }
      const Piece factor = scripted();
      if (factor.is_text) {
        before = before + product.whole + factor.whole;
        product = {};
        count = 0;
        continue;
      }
      product.inside = count == 0 ? factor.inside : product.whole + factor.whole;
      product.whole = product.whole + factor.whole;
      ++count;
    }
    return product;
  }

  // A factor with its hat, index and power.
  Piece scripted() {
    Piece piece = base();
    Formula below, above;
    bool primed = false;
    for (; at_ < text_.size(); primed = true) {
      if (peek() == '\'' && !primed) {
        ++at_;
        above = {"<mo>&#8242;</mo>", "\\prime"};
      } else if (peek() == '_' && peek(1) != '\0') {
        ++at_;
        below = script();
      } else if (peek() == '^' && is_hat()) {
        ++at_;
        piece.whole = {"<mover accent=\"true\">" + row(piece.whole.mathml) + "<mo>^</mo></mover>",
                       "\\hat{" + piece.whole.tex + "}"};
      } else if (peek() == '^') {
        ++at_;
        above = script();
      } else {
        break;
      }
      piece.inside = piece.whole;
    }
    if (!below.tex.empty() || !above.tex.empty()) add_scripts(piece, below, above);
    return piece;
  }
  bool is_hat() const {
    const char next = peek(1);
    return !is_letter(next) && !is_digit(next) && next != '{' && next != '(' && next != '-';
  }
  static void add_scripts(Piece& piece, const Formula& below, const Formula& above) {
    const bool is_sum = piece.whole.tex == "\\sum";
    std::string mathml = row(piece.whole.mathml);
    const char* element = above.tex.empty()   ? (is_sum ? "munder" : "msub")
                          : below.tex.empty() ? (is_sum ? "mover" : "msup")
                                              : (is_sum ? "munderover" : "msubsup");
    if (is_sum) mathml = piece.whole.mathml;
    piece.whole = {fmt::format("<{0}>{1}{2}{3}</{0}>", element, mathml,
                               below.tex.empty() ? "" : row(below.mathml),
                               above.tex.empty() ? "" : row(above.mathml)),
                   piece.whole.tex + (below.tex.empty() ? "" : "_{" + below.tex + "}") +
                       (above.tex.empty() ? "" : "^{" + above.tex + "}")};
    piece.inside = piece.whole;
  }

  Formula script() {
    if (peek() == '{' || peek() == '(') {
      const bool brackets = peek() == '(', display = display_;
      ++at_;
      display_ = false;
      const Formula inside = expression(brackets ? ")" : "}");
      display_ = display;
      ++at_;
      return brackets ? Formula{"<mo>(</mo>" + inside.mathml + "<mo>)</mo>", "(" + inside.tex + ")"}
                      : inside;
    }
    if (peek() == 'T' && !is_letter(peek(1)) && text_[at_ - 1] == '^') {
      ++at_;
      return {"<mo>&#8868;</mo>", "\\top"};
    }
    Formula result;
    if (peek() == '-') {
      ++at_;
      result = {"<mo>&#8722;</mo>", "-"};
    }
    std::string run;
    while (is_letter(peek()) || is_digit(peek())) run += text_[at_++];
    if (run == "hot") return {"<mtext>hot</mtext>", "\\text{hot}"};
    if (!run.empty() && is_digit(run[0])) return result + Formula{"<mn>" + run + "</mn>", run};
    for (const char c : run) result = result + letter(std::string(1, c));
    return result;
  }

  Piece base() {
    const char c = peek();
    if (c == '(' || c == '[' || c == '{') return in_brackets(c);
    if (c == '|') return in_bars();
    if (is_digit(c)) return number();
    if (is_letter(c)) return word();
    ++at_;
    const Formula other{"<mo>" + escape_xml(std::string(1, c)) + "</mo>",
                        std::string(c == '%' || c == '#' ? "\\" : "") + c};
    return {other, other};
  }

  Piece in_brackets(char open) {
    const char close = open == '(' ? ')' : open == '[' ? ']' : '}';
    ++at_;
    const Formula inside = expression(std::string(1, close));
    ++at_;
    if (open == '{') return {inside, inside};
    // Brackets grow around a fraction alone.
    const char* grows = inside.mathml.find("<mfrac") == std::string::npos ? "false" : "true";
    return {
        {fmt::format("<mrow><mo stretchy=\"{3}\">{0}</mo>{1}<mo stretchy=\"{3}\">{2}</mo></mrow>",
                     open, inside.mathml, close, grows),
         fmt::format("\\left{}{}\\right{}", open, inside.tex, close)},
        inside};
  }
  Piece in_bars() {
    ++at_;
    const Formula inside = expression("|");
    ++at_;
    const Formula whole{"<mrow><mo stretchy=\"true\">|</mo>" + inside.mathml +
                            "<mo stretchy=\"true\">|</mo></mrow>",
                        "\\left|" + inside.tex + "\\right|"};
    return {whole, whole};
  }

  // 8,256,000, 0.5, 4e-4
  Piece number() {
    std::string digits, exponent;
    while (is_digit(peek()) || (peek() == '.' && is_digit(peek(1))) ||
           (peek() == ',' && is_digit(peek(1)) && is_digit(peek(2)) && is_digit(peek(3))))
      digits += text_[at_++];
    if (peek() == 'e' && (is_digit(peek(1)) || (peek(1) == '-' && is_digit(peek(2))))) {
      for (++at_; is_digit(peek()) || peek() == '-';) exponent += text_[at_++];
    }
    Formula whole{"<mn>" + digits + "</mn>", digits};
    if (!exponent.empty())
      whole = whole + Formula{"<mo>&#8901;</mo><msup><mn>10</mn><mn>" + exponent + "</mn></msup>",
                              "\\cdot 10^{" + exponent + "}"};
    return {whole, whole};
  }

  Piece word() {
    const size_t first = at_;
    while (is_letter(peek())) ++at_;
    const std::string name = text_.substr(first, at_ - first);
    if (name == "sum" && peek() == '_') return same({"<mo>&#8721;</mo>", "\\sum"});
    if (name == "sqrt" && peek() == '(') {
      const Formula inside = in_brackets('(').inside;
      return same({"<msqrt>" + inside.mathml + "</msqrt>", "\\sqrt{" + inside.tex + "}"});
    }
    if (const Sign* greek = find_sign(kGreek, name))
      return same({fmt::format("<mi>{}</mi>", greek->mathml), greek->tex});
    if (is_function(name)) {
      const char* gap = peek() == ' ' ? "<mspace width=\"0.17em\"/>" : "";
      return same({"<mi>" + name + "</mi>" + gap, "\\operatorname{" + name + "}"});
    }
    if (name == "dphi") return same({"<mi>d</mi><mi>&#981;</mi>", "d\\phi"});
    if (name.size() == 1) return same(letter(name));
    if (name.size() == 2 && (name[0] == 'd' || std::isupper(static_cast<unsigned char>(name[0]))))
      return same(letter(name.substr(0, 1)) + letter(name.substr(1)));
    // MathML keeps no blanks around text.
    while (next_is_text())
      for (++at_; is_letter(peek());) ++at_;
    const std::string text = escape_xml(text_.substr(first, at_ - first));
    return {{"<mtext>&#160;" + text + "&#160;</mtext>", "\\text{ " + text + " }"},
            {"<mtext>" + text + "</mtext>", "\\text{" + text + "}"},
            true};
  }
  // A blank and a word that is neither a letter, a function nor a name with an index.
  bool next_is_text() const {
    if (peek() != ' ') return false;
    size_t end = at_ + 1;
    while (end < text_.size() && is_letter(text_[end])) ++end;
    const std::string next = text_.substr(at_ + 1, end - at_ - 1);
    const char after = end < text_.size() ? text_[end] : ' ';
    return next.size() > 1 && (after == ' ' || after == ',' || after == ':') &&
           !is_function(next) && next != "sum" && find_sign(kGreek, next) == nullptr;
  }
  static Piece same(const Formula& formula) { return {formula, formula}; }

  std::string text_;
  bool display_;
  size_t at_ = 0;
};

}  // namespace

Formula parse_formula(const std::string& text, bool display) {
  return Parser(text, display).expression("");
}

std::string math_element(const std::string& text, bool display) {
  const Formula formula = parse_formula(text, display);
  return fmt::format(
      "<math{}><semantics><mrow>{}</mrow><annotation encoding=\"application/x-tex\">{}"
      "</annotation></semantics></math>",
      display ? " display=\"block\"" : "", formula.mathml, escape_xml(formula.tex));
}

}  // namespace linea::lab
