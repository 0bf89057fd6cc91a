// The figures of a run. W16: its curves. W17: the bits of each pixel or token. W18: completions. W19: an
// image as it is sampled. W20: what heads do.
#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "data/chart.h"
#include "data/tasks/image_task.h"
#include "data/utf8.h"
#include "lab/figures.h"
#include "lab/number.h"
#include "lab/svg.h"

namespace linea::lab {
namespace {

constexpr uint8_t kMissing = 40;  // the gray of pixels that are not sampled yet
constexpr double kLetters = 48;   // in a line of a text

// Images next to each other, enlarged to about 84 pixels each.
class Strip {
 public:
  Strip(const Record& record, const std::string& at)
      : levels_(static_cast<int64_t>(record.value(at + "/levels"))) {
    grid_.height = grid_.width = static_cast<int64_t>(record.value(at + "/side"));
    grid_.channels = static_cast<int64_t>(record.value(at + "/channels"));
    grid_.scale = std::max<int64_t>(1, 84 / grid_.width);
  }
  size_t tokens() const { return static_cast<size_t>(grid_.width * grid_.width * grid_.channels); }
  // The first `shown` tokens; the others are missing.
  void add(const std::vector<double>& tokens, size_t shown) {
    for (size_t i = 0; i < this->tokens(); ++i)
      pixels_.push_back(i < shown && i < tokens.size()
                            ? token_to_gray(static_cast<int32_t>(tokens[i]), levels_)
                            : kMissing);
    ++grid_.count;
  }
  std::string image(int64_t columns, const std::vector<std::string>& captions,
                    const std::string& name) {
    grid_.columns = columns;
    grid_.captions = captions;
    return png_image(pixels_, grid_, name);
  }

 private:
  int64_t levels_;
  ImageGrid grid_;
  std::vector<uint8_t> pixels_;
};

Chart chart_at(const Record& record, const std::string& at) {
  Chart chart;
  chart.title = record.text(at + "/title");
  chart.x.label = record.text(at + "/x");
  chart.y.label = record.text(at + "/y");
  chart.y.logarithmic = record.flag(at + "/logarithmic");
  for (size_t i = 0; i < record.size(at + "/series"); ++i) {
    const std::string one = fmt::format("{}/series/{}", at, i);
    Series series;
    if (record.size(at + "/series") > 1) series.name = record.text(one + "/part");
    series.dash = static_cast<int>(record.value(one + "/dash"));
    series.color = static_cast<int>(i);
    series.markers = record.flag(one + "/markers");
    series.hollow = record.flag(one + "/hollow");
    series.x = record.numbers(one + "/x");
    series.y = record.numbers(one + "/y");
    chart.series.push_back(series);
  }
  return chart;
}

}  // namespace

Figure w16(const Record& record) {
  Figure figure{"The curves of the run", "", "", table_head({"metric", "last"}),
                record.text("/command")};
  for (size_t i = 0; i < record.size("/figures/w16/charts"); ++i)
    figure.body += chart_element(chart_at(record, fmt::format("/figures/w16/charts/{}", i)));
  if (figure.body.empty()) fail(ErrorKind::input, "the run has recorded no step yet");
  for (const std::string& metric : record.keys("/figures/w16/last"))
    figure.table += table_row({"<code>" + escape_xml(metric) + "</code>",
                               record.measured("/figures/w16/last/" + metric)});
  figure.caption = fmt::format("The loss in nats over {} steps, and the learning rate.",
                               record.measured("/step"));
  if (record.has("/figures/w16/last/val_loss"))
    figure.caption += fmt::format(" The last training loss is {}, that of the last validation {}.",
                                  record.measured("/figures/w16/last/loss"),
                                  record.measured("/figures/w16/last/val_loss"));
  return figure;
}

namespace {

// Means as bars, to the right of a map of `size` pixels or below it.
std::string bars(const std::vector<double>& means, double largest, bool by_row, double size,
                 const std::string& name) {
  constexpr double kLongest = 84;
  const double step = size / static_cast<double>(means.size());
  Svg svg(by_row ? kLongest : size, by_row ? size : kLongest);
  for (size_t i = 0; i < means.size(); ++i) {
    const double at = step * static_cast<double>(i),
                 length = kLongest * std::min(1.0, means[i] / largest);
    if (by_row)
      svg.box(0, at, length, step * 0.8, "a");
    else
      svg.box(at, 0, step * 0.8, length, "a");
  }
  return svg.element(name);
}

Figure bits_of_images(const Record& record) {
  const std::string all = "/figures/w17";
  const double uniform = record.value(all + "/uniform");
  Figure figure{"The bits of each pixel", "", "", table_head({"image", "mean bits", "dearest row"}),
                record.text("/command")};
  for (size_t i = 0; i < record.size(all + "/images"); ++i) {
    const std::string at = fmt::format("{}/images/{}", all, i);
    const std::string name = escape_xml(record.text(at + "/name"));
    Strip strip(record, all);
    strip.add(record.numbers(at + "/tokens"), strip.tokens());
    const Matrix bits = record.matrix(at + "/bits");
    const std::vector<double> rows = record.numbers(at + "/rows"),
                              columns = record.numbers(at + "/columns");
    const double largest = std::max(*std::max_element(rows.begin(), rows.end()),
                                    *std::max_element(columns.begin(), columns.end()));
    const int side = std::max(1, static_cast<int>(180 / std::max<int64_t>(1, std::ssize(bits))));
    const double size = static_cast<double>(side) * static_cast<double>(bits.size());
    const std::string map =
        matrix_image(bits, 0, uniform, side,
                     fmt::format("Bits of the pixels of {}, from 0 to {:.3g}, {:.3g} on average",
                                 name, uniform, record.value(at + "/mean")),
                     record.file_name() + "#" + at + "/bits");
    figure.body += fmt::format(
        "<div class=\"pair\">\n<div>\n{}<p><code>{}</code></p>\n</div>\n<div class=\"below\">\n{}{}"
        "<p>bits; means by column</p>\n</div>\n<div class=\"rows\">\n{}<p>by row</p>\n</div>\n"
        "</div>\n",
        strip.image(1, {},
                    fmt::format("The image {} of {} pixels a side, as the model reads it", name,
                                bits.size())),
        name, map,
        bars(columns, largest, false, size,
             fmt::format("Mean bits by column of {}: at most {:.3g} a pixel", name,
                         *std::max_element(columns.begin(), columns.end()))),
        bars(rows, largest, true, size,
             fmt::format("Mean bits by row of {}: row {:.0f} has the most, {:.3g}", name,
                         record.value(at + "/dearest_row"),
                         *std::max_element(rows.begin(), rows.end()))));
    figure.table += table_row({"<code>" + name + "</code>", record.measured(at + "/mean", 4),
                               record.measured(at + "/dearest_row")});
  }
  figure.caption = fmt::format(
      "What each pixel costs, given those above it and to its left: dark blue is free, yellow {} "
      "bits, which a guess among all levels costs. {} costs {} bits a pixel on average, most in "
      "row "
      "{}.",
      record.measured(all + "/uniform", 3),
      "<code>" + escape_xml(record.text(all + "/images/0/name")) + "</code>",
      record.measured(all + "/images/0/mean", 4), record.measured(all + "/images/0/dearest_row"));
  return figure;
}

// A line break as its sign; of a longer token the first 8 bytes.
std::string shown_token(const std::string& token) {
  return token == "\n" ? "\u21b5" : std::string(cut_utf8(token, 8));
}

double letters_of(const std::string& text) {
  const auto begins = [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; };
  return std::max(1.0, static_cast<double>(std::count_if(text.begin(), text.end(), begins)));
}

// Letters on backgrounds as dark as they cost bits.
std::string colored_text(const Record& record, double uniform) {
  const std::vector<double> bits = record.numbers("/figures/w17/bits");
  std::vector<std::string> tokens;
  for (size_t i = 0; i < bits.size(); ++i)
    tokens.push_back(shown_token(record.text(fmt::format("/figures/w17/text/{}", i))));
  std::vector<std::pair<double, double>> places;  // of the letters, column and line
  double column = 0, line = 0;
  for (const std::string& token : tokens) {
    if (column + letters_of(token) > kLetters) column = 0, line += 1;
    places.emplace_back(column, line);
    column += letters_of(token);
  }
  constexpr double kWidth = 12, kHeight = 22;
  Svg svg(kWidth * kLetters, kHeight * (line + 1) + 4);
  for (size_t i = 0; i < bits.size(); ++i) {
    const double x = kWidth * places[i].first, y = kHeight * places[i].second,
                 width = kWidth * letters_of(tokens[i]);
    const double share = std::min(1.0, bits[i] / uniform);
    if (share > 0.01) svg.box(x, y, width, kHeight - 2, "b", share * 0.8);
    svg.text(x + width / 2, y + 15, tokens[i], "", "middle");
  }
  return scroll_region(
      "scroll", "Bits of tokens",
      svg.element(
          fmt::format("{} tokens, darker where they cost more of {:.3g} bits; the mean is {:.3g}",
                      bits.size(), uniform, record.value("/figures/w17/mean"))));
}

Figure bits_of_tokens(const Record& record) {
  const double uniform = record.value("/figures/w17/uniform");
  Figure figure{"The bits of each token", colored_text(record, uniform), "",
                table_head({"token", "bits"}), record.text("/command")};
  const size_t count = record.size("/figures/w17/bits");
  for (size_t i = 0; i < count; ++i)
    figure.table += table_row(
        {"<code>" + escape_xml(record.text(fmt::format("/figures/w17/text/{}", i))) + "</code>",
         record.measured(fmt::format("/figures/w17/bits/{}", i))});
  figure.caption = fmt::format(
      "What each token costs, given those before it: the darker, the more of the {} bits of a "
      "guess among all. The mean of those shown is {} bits.",
      record.measured("/figures/w17/uniform", 3), record.measured("/figures/w17/mean", 4));
  return figure;
}

}  // namespace

Figure w17(const Record& record) {
  return record.has("/figures/w17/images") ? bits_of_images(record) : bits_of_tokens(record);
}

Figure w18(const Record& record) {
  const std::string all = "/figures/w18";
  const size_t images = record.size(all + "/images");
  size_t completions = 0;
  Strip strip(record, all);
  const double rows = record.value(all + "/rows");
  const size_t given =
      strip.tokens() / static_cast<size_t>(record.value(all + "/side")) * static_cast<size_t>(rows);
  Figure figure{"Completions", "", "", table_head({"image", "rows given", "completions"}),
                record.text("/command")};
  for (size_t i = 0; i < images; ++i) {
    const std::string at = fmt::format("{}/images/{}", all, i);
    const std::vector<double> tokens = record.numbers(at + "/tokens");
    strip.add(tokens, strip.tokens());
    strip.add(tokens, given);
    completions = record.size(at + "/completions");
    for (size_t j = 0; j < completions; ++j) {
      std::vector<double> whole(tokens.begin(),
                                tokens.begin() + static_cast<std::ptrdiff_t>(given));
      for (const double token : record.numbers(fmt::format("{}/completions/{}", at, j)))
        whole.push_back(token);
      strip.add(whole, strip.tokens());
    }
    figure.table += table_row({"<code>" + escape_xml(record.text(at + "/name")) + "</code>",
                               record.measured(all + "/rows"), std::to_string(completions)});
  }
  std::vector<std::string> captions = {"image", "given"};
  for (size_t j = 1; j <= completions; ++j) captions.push_back(std::to_string(j));
  figure.body = strip.image(
      static_cast<int64_t>(2 + completions), captions,
      fmt::format(
          "{} images, the {:.0f} rows that the model is given, and {} continuations of each",
          images, rows, completions));
  figure.caption = fmt::format(
      "The model is given the upper {} rows of an image and samples the others, each time with "
      "other random numbers. Where the given part leaves a choice, continuations differ.",
      record.measured(all + "/rows"));
  return figure;
}

Figure w19(const Record& record) {
  Strip strip(record, "/figures/w19");
  const std::vector<double> tokens = record.numbers("/figures/w19/tokens");
  std::vector<std::string> captions;
  Figure figure{"An image as it is sampled", "", "", table_head({"share", "tokens"}),
                record.text("/command")};
  for (size_t quarter = 0; quarter <= 4; ++quarter) {
    const size_t shown = strip.tokens() * quarter / 4;
    strip.add(tokens, shown);
    captions.push_back(std::to_string(shown));
    figure.table +=
        table_row({fmt::format("{} of 4 quarters", quarter),
                   exact_number(grouped(static_cast<double>(shown)),
                                fmt::format("floor({}*{}/4)", strip.tokens(), quarter))});
  }
  figure.body = strip.image(
      5, captions,
      fmt::format("One image after 0, 1/4, 1/2, 3/4 and all of its {} tokens", strip.tokens()));
  figure.caption = fmt::format(
      "One token after the other, from the upper left, {} in all; above each stage the tokens so "
      "far. A step reads one token and a state whose size does not depend on the position, or, for "
      "softmax, all keys and values before it.",
      exact_number(grouped(static_cast<double>(strip.tokens())), std::to_string(strip.tokens())));
  return figure;
}

namespace {

// What 3 of 100 of the numbers that are not 0 exceed: rows of few keys, whose weights are large, would
// darken the others.
double usual_largest(const Matrix& values) {
  std::vector<double> all;
  for (const std::vector<double>& row : values)
    for (const double x : row)
      if (x != 0) all.push_back(std::abs(x));
  if (all.empty()) return 1;
  std::sort(all.begin(), all.end());
  return all[(all.size() - 1) * 97 / 100];
}

bool has_negative(const Matrix& values) {
  return std::any_of(values.begin(), values.end(), [](const std::vector<double>& row) {
    return std::any_of(row.begin(), row.end(), [](double x) { return x < 0; });
  });
}

// Nothing where the record has none.
std::string head_image(const Record& record, const std::string& at, double least, double largest,
                       const std::string& what) {
  if (!record.has(at) || record.size(at) == 0) return "";
  const Matrix values = record.matrix(at);
  const auto longer = std::max(std::ssize(values), std::ssize(values[0]));
  const int side = std::max(1, static_cast<int>(192 / longer));
  return fmt::format(
      "<div>\n{}<p>{}, {}</p>\n</div>\n",
      matrix_image(values, least, largest, side,
                   fmt::format("A head: {}, {} rows by {} columns, colors from {:.2g} to {:.2g}",
                               what, values.size(), values[0].size(), least, largest),
                   record.file_name() + "#" + at),
      what, least < 0 ? "gray where it is 0" : "dark blue where it is 0");
}

}  // namespace

Figure w20(const Record& record) {
  const std::string all = "/figures/w20";
  Figure figure{"What heads do", "", "", table_head({"layer", "attention", "apart from softmax"}),
                record.text("/command")};
  bool any = false;
  std::vector<Panel> panels;
  for (size_t i = 0; i < record.size(all + "/layers"); ++i) {
    const std::string at = fmt::format("{}/layers/{}", all, i);
    std::string images;
    if (record.has(at + "/weights")) {
      const Matrix weights = record.matrix(at + "/weights");
      const double largest = usual_largest(weights), least = has_negative(weights) ? -largest : 0;
      images = head_image(record, at + "/weights", least, largest, "weights") +
               head_image(record, at + "/softmax", least, largest, "softmax of the same q and k");
    }
    if (record.has(at + "/state")) {
      const double largest = usual_largest(record.matrix(at + "/state"));
      images += head_image(record, at + "/state", -largest, largest, "the state S at the end");
    }
    any = any || !images.empty();
    if (images.empty()) images = "<p>" + escape_xml(record.text(at + "/reason")) + "</p>\n";
    panels.push_back({{fmt::format("{:.0f}", record.value(at + "/layer"))},
                      "<div class=\"pair\">\n" + images + "</div>\n"});
    figure.table += table_row({record.measured(at + "/layer"),
                               "<code>" + escape_xml(record.text(at + "/attention")) + "</code>",
                               record.has(at + "/apart") ? record.measured(at + "/apart") : "-"});
  }
  if (!any) fail(ErrorKind::input, "{}", record.text(all + "/layers/0/reason"));
  figure.body = panels.size() > 1 ? choice("w20", {"layer"}, panels, 0) : panels.at(0).body;
  figure.caption = fmt::format(
      "The first head of each layer on {}: {} positions in {} blocks. A row is the mean over the "
      "queries of a block, a column the sum over the keys of one; the largest weights are all "
      "yellow. "
      "Next to it, in the same colors: what softmax makes of the same q and k. The state S [F,M] "
      "after "
      "the last position has colors of its own.",
      "<code>" + escape_xml(record.text(all + "/on")) + "</code>",
      record.measured(all + "/positions"), record.measured(all + "/blocks"));
  if (record.has(all + "/layers/0/apart"))
    figure.caption += fmt::format(
        " In layer {} a row of weights and that of softmax differ by {}, summed over keys.",
        record.measured(all + "/layers/0/layer"), record.measured(all + "/layers/0/apart"));
  return figure;
}

}  // namespace linea::lab
