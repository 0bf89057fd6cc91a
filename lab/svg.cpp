#include "lab/svg.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "data/chart.h"
#include "data/image.h"
#include "data/page.h"

namespace linea::lab {
namespace {

// Nunez, Anderton and Renslow 2018, "Optimizing colormaps with consideration for color vision
// deficiency": cividis at eighths.
constexpr uint8_t kRamp[9][3] = {{0, 32, 76},     {20, 53, 109},   {60, 77, 110},
                                 {91, 98, 110},   {124, 123, 120}, {154, 147, 118},
                                 {187, 173, 108}, {221, 202, 89},  {255, 233, 69}};

// One of 65, so that images of random numbers are small.
void add_color(std::vector<uint8_t>& pixels, double share) {
  const double at = std::round(std::clamp(std::isfinite(share) ? share : 0.0, 0.0, 1.0) * 64) / 8;
  const auto below = static_cast<size_t>(std::min(7.0, std::floor(at)));
  const double part = at - static_cast<double>(below);
  for (size_t c = 0; c < 3; ++c)
    pixels.push_back(static_cast<uint8_t>(
        std::lround((1 - part) * kRamp[below][c] + part * kRamp[below + 1][c])));
}

}  // namespace

void Svg::text(double x, double y, const std::string& text, const std::string& look,
               const char* anchor) {
  body_ += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\"{}>{}</text>\n", x, y,
                       anchor, look.empty() ? "" : " class=\"" + look + "\"", escape_xml(text));
}

void Svg::box(double x, double y, double width, double height, const std::string& look,
              double opacity) {
  body_ += fmt::format(
      "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" class=\"{}\"{}/>\n", x, y,
      width, height, look, opacity < 1 ? fmt::format(" fill-opacity=\"{:.2f}\"", opacity) : "");
}

void Svg::line(double x1, double y1, double x2, double y2, const std::string& look, double width) {
  body_ += fmt::format(
      "<path d=\"M{:.1f} {:.1f}L{:.1f} {:.1f}\" class=\"{}\" stroke-width=\"{:.1f}\"/>\n", x1, y1,
      x2, y2, look, width);
}

void Svg::circle(double x, double y, double radius, const std::string& look) {
  body_ += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{:.1f}\" class=\"{}\"/>\n", x, y,
                       radius, look);
}

void Svg::path(const std::string& d, const std::string& look) {
  body_ += fmt::format("<path d=\"{}\" class=\"{}\"/>\n", d, look);
}

void Svg::cells(double x, double y, double side, const Matrix& values, double largest) {
  for (size_t i = 0; i < values.size(); ++i)
    for (size_t j = 0; j < values[i].size(); ++j) {
      const double left = x + side * static_cast<double>(j),
                   top = y + side * static_cast<double>(i);
      box(left, top, side - 1, side - 1, "s");
      const double share = largest > 0 ? std::abs(values[i][j]) / largest : 0;
      if (share > 0) box(left, top, side - 1, side - 1, values[i][j] < 0 ? "b" : "a", share * 0.99);
    }
}

std::string Svg::element(const std::string& name) const {
  return fmt::format(
      "<svg class=\"w\" viewBox=\"0 0 {:.0f} {:.0f}\" role=\"img\" aria-label=\"{}\">\n{}</svg>\n",
      width_, height_, name, body_);
}

std::string matrix_image(const Matrix& values, double least, double largest, int side,
                         const std::string& name, const std::string& from) {
  std::vector<uint8_t> pixels;
  for (const std::vector<double>& row : values)
    for (const double x : row) add_color(pixels, (x - least) / (largest - least));
  ImageGrid grid;
  grid.count = 1;
  grid.height = std::ssize(values);
  grid.width = values.empty() ? 0 : std::ssize(values[0]);
  grid.channels = 3;
  grid.columns = 1;
  grid.few_colors = true;
  const std::string source =
      from.empty() ? ""
                   : fmt::format(" data-from=\"{}\" data-least=\"{}\" data-largest=\"{}\"", from,
                                 least, largest);
  return fmt::format(
      "<img class=\"matrix\" alt=\"{}\" width=\"{}\" height=\"{}\"{} "
      "src=\"data:image/png;base64,{}\">\n",
      name, grid.width * side, grid.height * side, source, base64(png_grid(pixels, grid)));
}

std::string png_image(const std::vector<uint8_t>& pixels, const ImageGrid& grid,
                      const std::string& name) {
  return fmt::format("<img class=\"matrix\" alt=\"{}\" src=\"data:image/png;base64,{}\">\n", name,
                     base64(png_grid(pixels, grid)));
}

double largest_of(const Matrix& values) {
  double largest = 0;
  for (const std::vector<double>& row : values)
    for (const double x : row) largest = std::max(largest, std::abs(x));
  return largest;
}

}  // namespace linea::lab
