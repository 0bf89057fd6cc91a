// Images of pages as SVG. Looks are classes of the page's style (lab/page_style.cpp), so that one
// image is for light and dark pages.
#pragma once

#include <string>
#include <vector>

#include "data/image.h"
#include "lab/record.h"

namespace linea::lab {

class Svg {
 public:
  Svg(double width, double height) : width_(width), height_(height) {}

  // `look`: class names. Anchors: start, middle, end.
  void text(double x, double y, const std::string& text, const std::string& look = "",
            const char* anchor = "start");
  void box(double x, double y, double width, double height, const std::string& look,
           double opacity = 1);
  void line(double x1, double y1, double x2, double y2, const std::string& look = "l",
            double width = 1);
  void circle(double x, double y, double radius, const std::string& look);
  void path(const std::string& d, const std::string& look);
  // A cell a number, darker where it is farther from 0; negative ones in the second color.
  void cells(double x, double y, double side, const Matrix& values, double largest);
  void raw(const std::string& svg) { body_ += svg; }
  // `name`: what it shows, for those who do not see it.
  std::string element(const std::string& name) const;

 private:
  double width_, height_;
  std::string body_;
};

// Rows of numbers as a PNG, shown with side x side pixels a number, in colors from `least` to
// `largest` that do not need color vision. `from`: FILE#/pointer of the numbers, with which
// tools/check_pages.py compares the colors; the page reads out the cells of such an image.
std::string matrix_image(const Matrix& values, double least, double largest, int side,
                         const std::string& name, const std::string& from = "");
double largest_of(const Matrix& values);  // of absolute values
// Pixels in their own colors.
std::string png_image(const std::vector<uint8_t>& pixels, const ImageGrid& grid,
                      const std::string& name);

}  // namespace linea::lab
