// Charts as SVG: curves, or circles, of named series over axes that are linear or logarithmic. A chart
// scales to the width it is shown in, with larger letters below 560 pixels, and has colors for
// light and dark pages. A small script shows the values of the curves under the pointer and
// highlights a series; without scripts a curve shows its name.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace linea {

constexpr int kChartColors = 7, kChartDashes = 4;

struct Axis {
  std::string label;
  bool logarithmic = false;
  std::vector<double> ticks = {};  // empty: automatic
};

// Points are joined in order. The line has a gap at a point that is not finite, or not above 0 on a
// logarithmic axis.
struct Series {
  std::string name;
  std::vector<double> x, y;
  int color = 0;  // index into kChartColors colors for color-blind readers, cyclic
  int dash = 0;   // solid, long dashes, dots, dashes and dots; each with its own marker
  bool markers = true;
  // Curves of one name differ in their part, "training" or "validation". The legend explains the
  // parts once where there are several names.
  std::string part = {};
  double width = 2;
  bool hollow = false;  // markers
  bool faint = false;   // pale, and neither in the legend nor under the pointer
  // Where it is given, points are circles of these areas, in one unit for the chart, and not joined;
  // hollow ones are dashed.
  std::vector<double> area = {};
  std::vector<double> error = {};        // of y, to both sides
  std::vector<std::string> labels = {};  // of the circles, which are moved apart
};

struct Chart {
  std::string title;
  Axis x, y;
  std::vector<Series> series;
  std::string area = {};         // the areas of circles, of which the legend shows some
  std::string description = {};  // what the image shows, as text
};

// Text for XML and HTML, as UTF-8. Line breaks become blanks, other control characters question
// marks.
std::string escape_xml(const std::string& text);

// Charts below each other, as a file of its own. Error: ErrorKind::usage for a series whose x and y
// differ in size, or its x and areas.
std::string charts_svg(const std::vector<Chart>& charts);

// One chart as an element of an HTML page that has chart_style() in its <style> and chart_script()
// in a <script> at its end. Error: as above.
std::string chart_element(const Chart& chart);
std::string chart_style();
std::string chart_script();

// Error: ErrorKind::write.
void write_charts(const std::filesystem::path& path, const std::vector<Chart>& charts);

}  // namespace linea
