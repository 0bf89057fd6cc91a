#include "data/chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "data/chart_circles.h"
#include "data/chart_scale.h"
#include "data/chart_style.h"
#include "data/chart_text.h"
#include "data/files.h"

namespace linea {
namespace {

// Lengths in units of the view box, which is kWidth wide; shown in kShownWidth pixels if there is
// room. Letters have kText units, and kWideText where the chart is shown in less than 560 pixels:
// all that holds text has room for these.
constexpr double kWidth = 600, kShownWidth = 760;
constexpr double kText = 14, kTitle = 17, kWideText = 18, kWideTitle = 20;
constexpr double kEdge = 14, kRow = 25, kSwatch = 34;
// Height of the frame; a chart with labels of circles has room for each.
constexpr double kFrameHeight = 290, kLabelRoom = 20, kMaxFrameHeight = 900;
constexpr double kCircleMargin = 0.1;  // at both ends of an axis
constexpr double kMarkers = 25;        // of a curve at most, so that they do not hide its line

std::string full_name(const Series& series) {
  return series.name + (series.name.empty() || series.part.empty() ? "" : ", ") + series.part;
}

double largest_area(const Chart& chart) {
  double largest = 0;
  for (const Series& series : chart.series)
    for (const double area : series.area)
      if (std::isfinite(area)) largest = std::max(largest, area);
  return largest;
}

// An entry of the legend: a line of `style`, for all series of `name`.
struct LegendEntry {
  std::string text, name;
  Series style;
  bool of_part = false;  // in the color of text
};

class ChartLayout {
 public:
  explicit ChartLayout(const Chart& chart)
      : chart_(chart),
        largest_(largest_area(chart)),
        x_scale_(chart.x, chart.series, &Series::x, largest_ > 0 ? kCircleMargin : 0.015),
        y_scale_(chart.y, chart.series, &Series::y, largest_ > 0 ? kCircleMargin : 0.05) {
    for (const std::string& label : y_scale_.labels())
      left_ = std::max(left_, kEdge + 10 + text_width(label, kWideText, kDigitEm));
    const double last =
        x_scale_.labels().empty() ? 0 : text_width(x_scale_.labels().back(), kWideText, kDigitEm);
    right_ = kWidth - std::max(kEdge, last / 2);
    top_ = chart.y.label.empty() ? 44 : 66;
    double labels = 0;
    for (const Series& series : chart.series) labels += static_cast<double>(series.labels.size());
    bottom_ = top_ + std::clamp(kLabelRoom * labels, kFrameHeight, kMaxFrameHeight);
    for (const Series& series : chart.series) add_entries(series);
    if (names_.size() > 1) add_parts();
    height_ = bottom_ + 58;
  }

  // Sets the height.
  std::string text() {
    const std::string axes = axes_svg(), legend = legend_svg();
    std::string lines;
    for (const bool faint : {true, false})
      for (const Series& series : chart_.series)
        if (series.faint == faint && series.area.empty()) lines += series_svg(series);
    return axes +
           fmt::format("<g class=\"plot\" data-x=\"{}\">\n{}", escape_xml(chart_.x.label), lines) +
           fmt::format(
               "<rect class=\"area\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" "
               "height=\"{:.1f}\" fill=\"#fff\" fill-opacity=\"0\"/>\n</g>\n",
               left_, top_, right_ - left_, bottom_ - top_) +
           circles_svg() + legend;
  }
  double height() const { return height_; }

 private:
  double x_at(double x) const { return left_ + x_scale_.position(x) * (right_ - left_); }
  double y_at(double y) const { return bottom_ - y_scale_.position(y) * (bottom_ - top_); }
  bool shows(const Series& series, size_t i) const {
    return x_scale_.shows(series.x[i]) && y_scale_.shows(series.y[i]);
  }
  size_t number_of(const std::string& name) const {
    return static_cast<size_t>(std::find(names_.begin(), names_.end(), name) - names_.begin());
  }

  // One of each name; where there is only one name, one of each part.
  void add_entries(const Series& series) {
    if (number_of(series.name) == names_.size()) names_.push_back(series.name);
    if (!series.faint && !full_name(series).empty())
      entries_.push_back({full_name(series), series.name, series});
  }
  void add_parts() {
    std::vector<LegendEntry> by_name, parts;
    for (const LegendEntry& entry : entries_) {
      const auto named = [&](const LegendEntry& other) { return other.name == entry.name; };
      if (std::none_of(by_name.begin(), by_name.end(), named)) {
        by_name.push_back(entry);
        by_name.back().text = entry.name;
        by_name.back().style.width = 2;
        by_name.back().style.markers |= !entry.style.part.empty();
        by_name.back().style.hollow &= !entry.style.area.empty();
      }
      const auto same = [&](const LegendEntry& other) { return other.text == entry.style.part; };
      if (!entry.style.part.empty() && std::none_of(parts.begin(), parts.end(), same)) {
        parts.push_back({entry.style.part, "", entry.style, true});
        parts.back().style.dash = 0;
      }
    }
    entries_ = by_name;
    if (parts.size() > 1) entries_.insert(entries_.end(), parts.begin(), parts.end());
  }

  std::string axes_svg() const;
  std::string title_svg() const;
  std::string series_svg(const Series& series) const;
  std::string circles_svg() const;
  std::string circle_svg(const Series& series, size_t i, const Circle& circle) const;
  std::string scale_svg();
  std::string entry_svg(const LegendEntry& entry, double x, double y, double width) const;
  std::string legend_svg();

  const Chart& chart_;
  double largest_;  // of the areas of circles; 0: no circles
  Scale x_scale_, y_scale_;
  double left_ = 40, right_ = 0, top_ = 0, bottom_ = 0, height_ = 0;
  std::vector<std::string> names_;
  std::vector<LegendEntry> entries_;
};

// A title that is too long has smaller letters.
std::string ChartLayout::title_svg() const {
  const double room = kWidth - 2 * kEdge, width = text_width(chart_.title, kWideTitle, kBoldEm);
  std::string svg =
      text_at(kEdge, 28, "start", chart_.title,
              width <= room ? fmt::format("class=\"ink title\" fill=\"#1f2328\" font-size=\"{}\" "
                                          "font-weight=\"600\"",
                                          kTitle)
                            : fmt::format("{} font-weight=\"600\" style=\"font-size:{:.1f}px\"",
                                          kInk, std::min(kTitle, kWideTitle * room / width)));
  if (!chart_.y.label.empty())
    svg += text_at(kEdge, 50, "start", shortened(chart_.y.label, kWideText, room), kMute);
  return svg;
}

// A label that would touch the one before it is left out.
std::string ChartLayout::axes_svg() const {
  std::string svg = title_svg();
  for (size_t i = 0; i < y_scale_.ticks().size(); ++i) {
    const double y = y_at(y_scale_.ticks()[i]);
    svg += fmt::format("<path class=\"grid\" d=\"M{:.1f} {:.1f}H{:.1f}\" stroke=\"#e4e7eb\"/>\n",
                       left_, y, right_);
    svg += text_at(left_ - 8, y + 5, "end", y_scale_.labels()[i], kMute);
  }
  double end = -kWidth;
  for (size_t i = 0; i < x_scale_.ticks().size(); ++i) {
    const double x = x_at(x_scale_.ticks()[i]);
    const double half = text_width(x_scale_.labels()[i], kWideText, kDigitEm) / 2;
    svg += fmt::format("<path class=\"axis\" d=\"M{:.1f} {:.1f}v5\" stroke=\"#8b949e\"/>\n", x,
                       bottom_);
    if (x - half < end + 4) continue;
    svg += text_at(x, bottom_ + 22, "middle", x_scale_.labels()[i], kMute);
    end = x + half;
  }
  svg += fmt::format("<path class=\"axis\" d=\"M{:.1f} {:.1f}H{:.1f}\" stroke=\"#8b949e\"/>\n",
                     left_, bottom_, right_);
  return svg + text_at((left_ + right_) / 2, bottom_ + 44, "middle", chart_.x.label, kMute);
}

// Its line, its markers at evenly spaced points, and the values of its points for the script.
std::string ChartLayout::series_svg(const Series& series) const {
  require(series.x.size() == series.y.size(), "the series '{}' of a chart has {} x and {} y values",
          series.name, series.x.size(), series.y.size());
  std::string line, values, markers;
  bool connected = false;
  std::vector<std::pair<double, double>> points;
  for (size_t i = 0; i < series.x.size(); ++i) {
    if (!shows(series, i)) {
      connected = false;
      continue;
    }
    points.emplace_back(x_at(series.x[i]), y_at(series.y[i]));
    line += fmt::format("{}{:.1f} {:.1f}", connected ? 'L' : 'M', points.back().first,
                        points.back().second);
    values += fmt::format("{}{:.6g},{:.5g}", values.empty() ? "" : " ", series.x[i], series.y[i]);
    connected = true;
  }
  if (points.empty()) return "";
  const auto every = static_cast<size_t>(std::ceil(static_cast<double>(points.size()) / kMarkers));
  for (size_t i = points.size(); i-- > 0;)  // the last point has one
    if ((series.markers || points.size() == 1) && (points.size() - 1 - i) % every == 0)
      markers += marker(points[i].first, points[i].second, series);
  const std::string start =
      fmt::format("<g {} data-n=\"{}\">\n", color_attributes(series.color), number_of(series.name));
  if (series.faint)
    return fmt::format("{}<path d=\"{}\" {}/>\n</g>\n", start, line, line_attributes(series));
  return fmt::format(
      "{}<path class=\"curve\" d=\"{}\" data-v=\"{}\" {}><title>{}</title></path>\n{}</g>\n", start,
      line, values, line_attributes(series), escape_xml(full_name(series)), markers);
}

std::string ChartLayout::circle_svg(const Series& series, size_t i, const Circle& circle) const {
  std::string svg =
      fmt::format("<g {} data-n=\"{}\">\n", color_attributes(series.color), number_of(series.name));
  if (i < series.error.size() && series.error[i] > 0)
    svg += fmt::format("<path d=\"M{:.1f} {:.1f}V{:.1f}\" stroke=\"currentColor\"/>\n", circle.x,
                       std::min(y_at(series.y[i] - series.error[i]), bottom_),
                       std::max(y_at(series.y[i] + series.error[i]), top_));
  return svg + fmt::format(
                   "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{:.3f}\" {}><title>{}: {} {:.3g}, {} "
                   "{:.4g}, {} {:.3g}</title></circle>\n</g>\n",
                   circle.x, circle.y, circle.radius, circle_attributes(series.hollow),
                   escape_xml(circle.label.empty() ? full_name(series) : circle.label),
                   escape_xml(chart_.x.label), series.x[i], escape_xml(chart_.y.label), series.y[i],
                   escape_xml(chart_.area), series.area[i]);
}

// The largest circles first, so that none hides another; then their labels.
std::string ChartLayout::circles_svg() const {
  std::vector<Circle> circles;
  std::vector<std::pair<const Series*, size_t>> points;
  for (const Series& series : chart_.series) {
    require(series.area.empty() || series.area.size() == series.x.size(),
            "the series '{}' of a chart has {} x and {} areas", series.name, series.x.size(),
            series.area.size());
    for (size_t i = 0; i < series.area.size(); ++i) {
      if (!shows(series, i) || !std::isfinite(series.area[i]) || series.area[i] <= 0) continue;
      const std::string label = i < series.labels.size() ? series.labels[i] : "";
      circles.push_back({x_at(series.x[i]), y_at(series.y[i]),
                         circle_radius(series.area[i], largest_), label,
                         text_width(label, kWideText), label.empty() ? 0 : kLabelRoom});
      points.emplace_back(&series, i);
    }
  }
  std::vector<size_t> order(circles.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return circles[a].radius > circles[b].radius; });
  std::string svg, labels;
  for (const size_t i : order) svg += circle_svg(*points[i].first, points[i].second, circles[i]);
  const std::vector<PlacedLabel> placed =
      place_labels(circles, {left_ + 2, top_ + 2, kWidth - 2, bottom_ - 2});
  for (size_t i = 0; i < circles.size(); ++i) {
    if (circles[i].label.empty()) continue;
    const PlacedLabel& label = placed[i];
    if (label.has_line)
      svg += fmt::format(
          "<path class=\"axis\" d=\"M{:.1f} {:.1f}L{:.1f} {:.1f}\" stroke=\"#8b949e\"/>\n",
          label.from_x, label.from_y, label.to_x, label.to_y);
    labels += text_at(label.x, label.baseline, label.anchor, circles[i].label,
                      "pointer-events=\"none\" " + std::string(kInk));
  }
  return svg + labels;
}

// Below the legend: circles of some areas.
std::string ChartLayout::scale_svg() {
  double smallest = largest_;
  for (const Series& series : chart_.series)
    for (const double area : series.area)
      if (std::isfinite(area) && area > 0) smallest = std::min(smallest, area);
  const double y = height_ + kLargestRadius + 4;
  std::string svg = text_at(kEdge, y + 5, "start", chart_.area + ":", kInk);
  double x = kEdge + text_width(chart_.area + ":", kWideText) + 12;
  for (const double area : scale_areas(smallest, largest_)) {
    const double radius = circle_radius(area, largest_);
    const std::string label = fmt::format("{:g}", area);
    svg += fmt::format(
        "<circle class=\"axis\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{:.3f}\" fill=\"none\" "
        "stroke=\"#8b949e\"/>\n",
        x + radius, y, radius);
    svg += text_at(x + 2 * radius + 6, y + 5, "start", label, kInk);
    x += 2 * radius + 24 + text_width(label, kWideText, kDigitEm);
  }
  height_ = y + kLargestRadius + 8;
  return svg;
}

std::string ChartLayout::entry_svg(const LegendEntry& entry, double x, double y,
                                   double width) const {
  const std::string start =
      entry.of_part ? "<g class=\"ink\" color=\"#59636e\">\n"
                    : fmt::format("<g class=\"entry\" data-n=\"{}\">\n<g {}>\n",
                                  number_of(entry.name), color_attributes(entry.style.color));
  const std::string shown = shortened(entry.text, kWideText, width - kSwatch - 8);
  const std::string sign =
      entry.style.area.empty()
          ? fmt::format("<path d=\"M{:.1f} {:.1f}h{}\" {}/>\n", x, y - 5, kSwatch,
                        line_attributes(entry.style)) +
                (entry.style.markers ? marker(x + kSwatch / 2, y - 5, entry.style) : "")
          : fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"7\" {}/>\n", x + kSwatch / 2,
                        y - 5, circle_attributes(entry.style.hollow));
  return start + sign + (entry.of_part ? "" : "</g>\n") +
         text_at(x + kSwatch + 8, y, "start", shown, kInk) + "</g>\n";
}

// Below the chart, in as many columns as fit, filled column by column.
std::string ChartLayout::legend_svg() {
  if (entries_.empty()) return "";
  double widest = 0;
  for (const LegendEntry& entry : entries_)
    widest = std::max(widest, kSwatch + 8 + text_width(entry.text, kWideText) + 18);
  const double room = kWidth - 2 * kEdge;
  const auto fit = static_cast<size_t>(std::max(1.0, std::floor((room + 18) / widest)));
  const size_t rows = (entries_.size() + fit - 1) / fit,
               columns = (entries_.size() + rows - 1) / rows;
  const double column = columns == 1 ? room : std::min(widest, room / static_cast<double>(columns));
  std::string svg;
  for (size_t i = 0; i < entries_.size(); ++i)
    svg += entry_svg(entries_[i], kEdge + static_cast<double>(i / rows) * column,
                     bottom_ + 76 + static_cast<double>(i % rows) * kRow, column);
  height_ = bottom_ + 76 + static_cast<double>(rows) * kRow - 4;
  return largest_ > 0 ? svg + scale_svg() : svg;
}

}  // namespace

namespace {

std::string description_svg(const std::string& title, const std::string& description) {
  if (description.empty()) return "";
  return fmt::format("<title>{}</title>\n<desc>{}</desc>\n", escape_xml(title),
                     escape_xml(description));
}

}  // namespace

std::string chart_element(const Chart& chart) {
  ChartLayout layout(chart);
  const std::string body = description_svg(chart.title, chart.description) + layout.text();
  return fmt::format(
      "<svg class=\"chart\" xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {:.0f}\" "
      "font-family=\"sans-serif\" font-size=\"{}\" role=\"img\" aria-label=\"{}\">\n{}</svg>\n",
      kWidth, layout.height(), kText, escape_xml(chart.title), body);
}

std::string charts_svg(const std::vector<Chart>& charts) {
  double height = 0;
  std::string body, titles, descriptions;
  for (const Chart& chart : charts) {
    ChartLayout layout(chart);
    body += fmt::format("<g transform=\"translate(0 {:.0f})\">\n{}</g>\n", height, layout.text());
    titles += (titles.empty() ? "" : ", ") + chart.title;
    descriptions += (descriptions.empty() ? "" : "; ") + chart.description;
    height += std::ceil(layout.height()) + 10;
  }
  return fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
      "<svg class=\"chart\" xmlns=\"http://www.w3.org/2000/svg\" width=\"{:.0f}\" "
      "height=\"{:.0f}\" "
      "viewBox=\"0 0 {} {:.0f}\" font-family=\"sans-serif\" font-size=\"{}\" role=\"img\" "
      "aria-label=\"{}\">\n<style>{}:root{{display:block;width:min(100%,{:.0f}px);height:auto;"
      "margin:0 auto;background:#fff}}@media (prefers-color-scheme:dark){{:root{{background:"
      "#0d1117}}}}\n</style>\n"
      "<rect class=\"page\" width=\"100%\" height=\"100%\" "
      "fill=\"#fff\"/>\n{}{}<script>{}</script>\n</svg>\n",
      kShownWidth, height * kShownWidth / kWidth, kWidth, height, kText, escape_xml(titles),
      chart_style(), kShownWidth, description_svg(titles, descriptions), body, chart_script());
}

void write_charts(const std::filesystem::path& path, const std::vector<Chart>& charts) {
  write_file_atomically(path, charts_svg(charts));
}

}  // namespace linea
