#include "data/chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

#include "data/files.h"
#include "data/utf8.h"
#include "tensor/error.h"

namespace linea {
namespace {

// Sizes in pixels: of one chart, and of the frame of its axes.
constexpr double kWidth = 960, kHeight = 520;  // at least
constexpr double kLeft = 96, kTop = 52, kFrameWidth = 600, kFrameHeight = 396;
constexpr double kLegend = kLeft + kFrameWidth + 24;

// Okabe & Ito 2008, "Color universal design", yellow last, because it is pale on white.
constexpr const char* kColors[] = {"#0072B2", "#D55E00", "#009E73", "#CC79A7",
                                   "#000000", "#56B4E9", "#E69F00", "#F0E442"};
constexpr const char* kDashes[] = {"", "10 5", "2 4", "10 4 2 4"};

template <size_t count>
const char* choose(const char* const (&from)[count], int index) {
  return from[static_cast<size_t>(index < 0 ? 0 : index) % count];
}

// 0.00001 as 1e-5.
std::string format_tick(double value) {
  std::string text = fmt::format("{:.6g}", value);
  const size_t exponent = text.find('e');
  if (exponent == std::string::npos) return text;
  return fmt::format("{}e{}", text.substr(0, exponent), std::stoi(text.substr(exponent + 1)));
}

// Maps numbers to the length of an axis, 0 to 1.
class Scale {
 public:
  Scale(const Axis& axis, const std::vector<Series>& series, std::vector<double> Series::*values)
      : log_(axis.logarithmic) {
    double low = std::numeric_limits<double>::infinity(), high = -low;
    const auto include = [&](double value) {
      if (!shows(value)) return;
      low = std::min(low, at(value));
      high = std::max(high, at(value));
    };
    for (const Series& one : series)
      for (const double value : one.*values) include(value);
    if (low > high) low = high = 0;  // nothing to show
    if (high - low < 1e-12 * std::max(std::fabs(low), 1.0)) low -= 0.5, high += 0.5;
    const double margin = 0.04 * (high - low);
    low_ = low - margin;
    high_ = high + margin;
    for (const double tick : axis.ticks.empty() ? automatic_ticks() : axis.ticks)
      if (shows(tick) && at(tick) >= low_ && at(tick) <= high_) ticks_.push_back(tick);
  }

  bool shows(double value) const { return std::isfinite(value) && (!log_ || value > 0); }
  double position(double value) const { return (at(value) - low_) / (high_ - low_); }
  const std::vector<double>& ticks() const { return ticks_; }

 private:
  double at(double value) const { return log_ ? std::log10(value) : value; }

  // On a logarithmic axis: powers of ten, with 2 and 5 between them if there are few, thinned out
  // if there are many. On a linear one, and for less than a decade: about six steps of 1, 2 or 5
  // times a power of ten.
  std::vector<double> automatic_ticks() const {
    std::vector<double> ticks;
    const double span = high_ - low_;
    if (log_ && span >= 1) {
      const int every = static_cast<int>(std::ceil(span / 10));
      for (int power = static_cast<int>(std::floor(low_));
           power <= static_cast<int>(std::ceil(high_)); ++power) {
        if (power % every != 0) continue;
        for (const double digit : {1.0, 2.0, 5.0})
          if (digit == 1.0 || span < 3) ticks.push_back(digit * std::pow(10.0, power));
      }
      return ticks;
    }
    const double low = log_ ? std::pow(10.0, low_) : low_,
                 high = log_ ? std::pow(10.0, high_) : high_;
    const double raw = (high - low) / 6, power = std::pow(10.0, std::floor(std::log10(raw)));
    const double digit = raw / power < 1.5 ? 1 : raw / power < 3.5 ? 2 : raw / power < 7.5 ? 5 : 10;
    const double step = digit * power;
    for (double i = std::ceil(low / step); i * step <= high; ++i)
      ticks.push_back(i * step + 0.0);  // no -0
    return ticks;
  }

  bool log_;
  double low_, high_;
  std::vector<double> ticks_;
};

// The marker of a point: a disc, a square, a triangle or a diamond.
std::string marker(double x, double y, const Series& series) {
  const char* color = choose(kColors, series.color);
  switch ((series.dash < 0 ? 0 : series.dash) % 4) {
    case 0:
      return fmt::format("<circle cx=\"{:.2f}\" cy=\"{:.2f}\" r=\"3.6\" fill=\"{}\"/>\n", x, y,
                         color);
    case 1:
      return fmt::format(
          "<rect x=\"{:.2f}\" y=\"{:.2f}\" width=\"6.8\" height=\"6.8\" fill=\"{}\"/>\n", x - 3.4,
          y - 3.4, color);
    case 2:
      return fmt::format("<path d=\"M{:.2f} {:.2f}l4.4 7.6h-8.8z\" fill=\"{}\"/>\n", x, y - 4.8,
                         color);
    default:
      return fmt::format("<path d=\"M{:.2f} {:.2f}l4.6 4.6l-4.6 4.6l-4.6 -4.6z\" fill=\"{}\"/>\n",
                         x, y - 4.6, color);
  }
}

std::string line_style(const Series& series) {
  const char* dashes = choose(kDashes, series.dash);
  return fmt::format("fill=\"none\" stroke=\"{}\" stroke-width=\"2\"{}",
                     choose(kColors, series.color),
                     *dashes == '\0' ? "" : fmt::format(" stroke-dasharray=\"{}\"", dashes));
}

std::string text_at(double x, double y, const char* anchor, const std::string& text,
                    const std::string& more = "") {
  return fmt::format("<text x=\"{:.2f}\" y=\"{:.2f}\" text-anchor=\"{}\"{}>{}</text>\n", x, y,
                     anchor, more, escape_xml(text));
}

std::string axes_svg(const Chart& chart, const Scale& x_scale, const Scale& y_scale) {
  std::string svg;
  const double bottom = kTop + kFrameHeight, right = kLeft + kFrameWidth;
  for (const double tick : x_scale.ticks()) {
    const double x = kLeft + x_scale.position(tick) * kFrameWidth;
    svg += fmt::format("<path d=\"M{:.2f} {:.2f}V{:.2f}\" stroke=\"#ddd\"/>\n", x, kTop, bottom);
    svg += text_at(x, bottom + 20, "middle", format_tick(tick));
  }
  for (const double tick : y_scale.ticks()) {
    const double y = bottom - y_scale.position(tick) * kFrameHeight;
    svg += fmt::format("<path d=\"M{:.2f} {:.2f}H{:.2f}\" stroke=\"#ddd\"/>\n", kLeft, y, right);
    svg += text_at(kLeft - 8, y + 4.5, "end", format_tick(tick));
  }
  svg += fmt::format(
      "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"none\" stroke=\"#444\"/>\n", kLeft,
      kTop, kFrameWidth, kFrameHeight);
  svg += text_at(kLeft + kFrameWidth / 2, kTop - 20, "middle", chart.title,
                 " font-size=\"17\" font-weight=\"bold\"");
  svg += text_at(kLeft + kFrameWidth / 2, bottom + 46, "middle", chart.x.label);
  const double middle = kTop + kFrameHeight / 2;
  svg += text_at(24, middle, "middle", chart.y.label,
                 fmt::format(" transform=\"rotate(-90 24 {:.2f})\"", middle));
  return svg;
}

std::string series_svg(const Series& series, const Scale& x_scale, const Scale& y_scale) {
  std::string line, markers;
  bool connected = false;
  for (size_t i = 0; i < series.x.size(); ++i) {
    if (!x_scale.shows(series.x[i]) || !y_scale.shows(series.y[i])) {
      connected = false;
      continue;
    }
    const double x = kLeft + x_scale.position(series.x[i]) * kFrameWidth;
    const double y = kTop + (1 - y_scale.position(series.y[i])) * kFrameHeight;
    line += fmt::format("{}{:.2f} {:.2f}", connected ? 'L' : 'M', x, y);
    if (series.markers) markers += marker(x, y, series);
    connected = true;
  }
  if (line.empty()) return "";
  return fmt::format("<path d=\"{}\" {}/>\n", line, line_style(series)) + markers;
}

std::string chart_svg(const Chart& chart) {
  for (const Series& series : chart.series)
    require(series.x.size() == series.y.size(),
            "the series '{}' of a chart has {} x and {} y values", series.name, series.x.size(),
            series.y.size());
  const Scale x_scale(chart.x, chart.series, &Series::x),
      y_scale(chart.y, chart.series, &Series::y);
  std::string svg = axes_svg(chart, x_scale, y_scale);
  double y = kTop + 12;
  for (const Series& series : chart.series) {
    svg += series_svg(series, x_scale, y_scale);
    svg += fmt::format("<path d=\"M{:.2f} {:.2f}h44\" {}/>\n", kLegend, y, line_style(series));
    if (series.markers) svg += marker(kLegend + 22, y, series);
    svg += text_at(kLegend + 54, y + 4.5, "start", series.name);
    y += 22;
  }
  return svg;
}

// Long names increase the width, a long legend the height.
double chart_width(const Chart& chart) {
  size_t longest = 0;
  for (const Series& series : chart.series) longest = std::max(longest, series.name.size());
  return std::max(kWidth, kLegend + 54 + 8 * static_cast<double>(longest) + 16);
}

double chart_height(const Chart& chart) {
  return std::max(kHeight, kTop + 24 + 22 * static_cast<double>(chart.series.size()));
}

}  // namespace

std::string escape_xml(const std::string& text) {
  std::string result;
  for (const char c : valid_utf8(text)) {
    switch (c) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '"':
        result += "&quot;";
        break;
      case '\'':
        result += "&apos;";
        break;
      case '\t':
      case '\n':
      case '\r':
        result += ' ';
        break;
      default:
        result += static_cast<unsigned char>(c) < 0x20 || c == 0x7F ? '?' : c;
    }
  }
  return result;
}

std::string charts_svg(const std::vector<Chart>& charts) {
  double width = 0, height = 0;
  std::string body;
  for (const Chart& chart : charts) {
    body +=
        fmt::format("<g transform=\"translate(0 {:.2f})\">\n{}</g>\n", height, chart_svg(chart));
    width = std::max(width, chart_width(chart));
    height += chart_height(chart);
  }
  return fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} "
      "{1}\" "
      "font-family=\"sans-serif\" font-size=\"14\" fill=\"#222\">\n"
      "<rect width=\"{0}\" height=\"{1}\" fill=\"#fff\"/>\n{2}</svg>\n",
      width, height, body);
}

void write_charts(const std::filesystem::path& path, const std::vector<Chart>& charts) {
  write_file_atomically(path, charts_svg(charts));
}

}  // namespace linea
