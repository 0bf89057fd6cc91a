// Line charts as SVG: curves of named series over axes that are linear or logarithmic.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace linea {

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
  int color = 0;  // index into the eight colors of Okabe & Ito 2008 for color-blind readers, cyclic
  int dash = 0;   // solid, long dashes, dots, dashes and dots; each with its own marker
  bool markers = true;
};

struct Chart {
  std::string title;
  Axis x, y;
  std::vector<Series> series;
};

// Text for XML and HTML, as UTF-8. Line breaks become blanks, other control characters question marks.
std::string escape_xml(const std::string& text);

// Charts below each other. Error: ErrorKind::usage for a series whose x and y differ in size.
std::string charts_svg(const std::vector<Chart>& charts);

// Error: ErrorKind::write.
void write_charts(const std::filesystem::path& path, const std::vector<Chart>& charts);

}  // namespace linea
