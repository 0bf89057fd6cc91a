// The look of charts: colors, line patterns and markers.
#pragma once

#include <string>

#include "data/chart.h"

namespace linea {

// Attributes of a group whose lines and markers have the series' color by `currentColor`. The
// attribute is the color on a white page; the class has that of a dark one.
std::string color_attributes(int color);

// stroke, its width and its pattern.
std::string line_attributes(const Series& series);

// The marker of a point: a disc, a square, a triangle or a diamond.
std::string marker(double x, double y, const Series& series);

// Attributes of a circle whose area is a value.
std::string circle_attributes(bool hollow);

}  // namespace linea
