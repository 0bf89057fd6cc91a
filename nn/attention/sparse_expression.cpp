// Reads the expressions of nn/attention/sparse_pattern.h.
#include <algorithm>
#include <cctype>
#include <charconv>

#include "base/error.h"
#include "nn/attention/sparse_pattern.h"

namespace linea {
namespace {

using Kind = PatternAtom::Kind;

// How many numbers an atom takes.
struct AtomSyntax {
  const char* name;
  Kind kind;
  size_t min, max;
  bool of_images = false;
};
constexpr std::array<AtomSyntax, 12> kAtoms = {{{"band", Kind::band, 1, 1},
                                                {"dilated", Kind::dilated, 2, 2},
                                                {"block", Kind::block, 1, 2},
                                                {"global", Kind::global, 1, 1},
                                                {"last", Kind::last, 1, 1},
                                                {"random", Kind::random, 1, 1},
                                                {"strided", Kind::strided, 1, 1},
                                                {"fixed", Kind::fixed, 2, 2},
                                                {"row", Kind::row, 0, 0, true},
                                                {"column", Kind::column, 0, 0, true},
                                                {"block2d", Kind::block2d, 2, 2, true},
                                                {"local2d", Kind::local2d, 4, 4, true}}};

// Reads an expression; errors name the place.
class Parser {
 public:
  Parser(const std::string& text, const PatternSizes& sizes) : text_(text), sizes_(sizes) {}

  std::vector<KeyPattern> alternatives() {
    std::vector<KeyPattern> all;
    do all.emplace_back(atoms(), sizes_);
    while (take('/'));
    if (at_ < text_.size()) refuse("expected `+` or `/`");
    return all;
  }

 private:
  std::vector<PatternAtom> atoms() {
    std::vector<PatternAtom> all;
    do all.push_back(atom());
    while (take('+'));
    return all;
  }
  PatternAtom atom() {
    const size_t first = at_;
    while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) != 0)) ++at_;
    const std::string name = text_.substr(first, at_ - first);
    const auto known = std::find_if(kAtoms.begin(), kAtoms.end(),
                                    [&](const AtomSyntax& syntax) { return name == syntax.name; });
    if (known == kAtoms.end()) {
      at_ = first;
      std::vector<std::string> names;
      for (const AtomSyntax& syntax : kAtoms) names.emplace_back(syntax.name);
      refuse(fmt::format("there is no atom '{}'; choose one of {}", name, fmt::join(names, ", ")));
    }
    if (known->of_images && sizes_.image_width == 0) {
      at_ = first;
      refuse(fmt::format(
          "{} needs an image: choose a task of images, without skip_blank, or another atom", name));
    }
    std::vector<int64_t> numbers;
    if (take(':')) do
        numbers.push_back(number());
      while (take('x'));
    if (numbers.size() < known->min || numbers.size() > known->max)
      refuse(fmt::format("{} takes {} number{}, and has {}", name,
                         known->min == known->max ? fmt::format("{}", known->max)
                                                  : fmt::format("{} or {}", known->min, known->max),
                         known->max == 1 ? "" : "s", numbers.size()));
    numbers.resize(4, 0);
    if (known->kind == Kind::fixed && numbers[1] > numbers[0])
      refuse(fmt::format("fixed:{}x{} has more than {} positions in {}", numbers[0], numbers[1],
                         numbers[0], numbers[0]));
    return {known->kind, {numbers[0], numbers[1], numbers[2], numbers[3]}};
  }
  int64_t number() {
    int64_t value = 0;
    const char *const begin = text_.data() + at_, *const end = text_.data() + text_.size();
    const auto [stop, error] = std::from_chars(begin, end, value);
    if (error != std::errc() || value < 1 || value > (int64_t{1} << 31) - 1)
      refuse("expected a whole number from 1 to 2147483647");
    at_ += static_cast<size_t>(stop - begin);
    return value;
  }
  bool take(char c) {
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  [[noreturn]] void refuse(const std::string& why) const {
    fail(ErrorKind::usage, "`pattern` '{}', character {}: {}", text_, at_ + 1, why);
  }

  const std::string& text_;
  const PatternSizes& sizes_;
  size_t at_ = 0;
};

}  // namespace

std::vector<KeyPattern> parse_pattern(const std::string& expression, const PatternSizes& sizes) {
  return Parser(expression, sizes).alternatives();
}

}  // namespace linea
