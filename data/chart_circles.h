// Circles of a chart, in the units of its view box: their sizes, and labels that are moved apart.
#pragma once

#include <string>
#include <vector>

namespace linea {

constexpr double kLargestRadius = 24;
// Areas are in proportion; the largest has kLargestRadius.
double circle_radius(double area, double largest);
// Areas for a legend: powers of two up to the largest, at most three, each a quarter of the one before.
std::vector<double> scale_areas(double smallest, double largest);

struct Box {
  double left, top, right, bottom;
};
struct Circle {
  double x, y, radius;
  std::string label;
  double label_width = 0, label_height = 0;  // room for the label
};
// Where a label is written, and the line to its circle where it is not close.
struct PlacedLabel {
  double x, baseline;
  const char* anchor;  // start, middle or end
  bool has_line = false;
  double from_x = 0, from_y = 0, to_x = 0, to_y = 0;
};
// One of each circle, in their order, within the frame: away from other labels, circles and lines
// as far as there is room.
std::vector<PlacedLabel> place_labels(const std::vector<Circle>& circles, const Box& frame);

}  // namespace linea
