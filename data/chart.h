// Line charts as SVG: curves of named series over axes that are linear or logarithmic.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace linea {

struct Axis {
  std::string label;
  bool logarithmic = false;
  std::vector<double> ticks = {};  // empty: chosen
};

// Points are joined in their order. A point that is not finite, or not above 0 on a logarithmic
// axis, is left out and the line is broken there.
struct Series {
  std::string name;
  std::vector<double> x, y;
  int color = 0;  // of the eight of Okabe & Ito 2008, which the color-blind tell apart; and so on
                  // from the first
  int dash = 0;   // whole, long dashes, dots, dashes and dots; each with its own mark at the points
};

struct Chart {
  std::string title;
  Axis x, y;
  std::vector<Series> series;
};

// One chart below the other. Error: ErrorKind::usage for a series whose x and y differ in number.
std::string charts_svg(const std::vector<Chart>& charts);

// Error: ErrorKind::write.
void write_charts(const std::filesystem::path& path, const std::vector<Chart>& charts);

}  // namespace linea
