#include "data/chart_circles.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numbers>

namespace linea {
namespace {

constexpr size_t kMaxScale = 3;
constexpr int kDirections = 16, kRounds = 4;
constexpr std::array<double, 14> kDistances = {3,  8,   14,  22,  32,  44,  60,
                                               80, 105, 135, 170, 215, 270, 340};
constexpr double kNear = 12;  // no line is needed up to this distance
// What it costs where a label covers a label or a circle, or its line crosses something, in units of
// the distance to its circle.
constexpr double kOnLabel = 200, kOnCircle = 14, kThroughLabel = 120, kThroughLine = 60,
                 kThroughCircle = 25;

struct ChartPoint {
  double x, y;
};

// A label at one of its places.
struct Candidate {
  Box box;
  ChartPoint from, to;  // its line, from the circle to the box
  double distance;
};

double overlap(const Box& a, const Box& b) {
  const double width = std::min(a.right, b.right) - std::max(a.left, b.left),
               height = std::min(a.bottom, b.bottom) - std::max(a.top, b.top);
  return width > 0 && height > 0 ? std::min(width, height) : 0;
}

ChartPoint nearest(const Box& box, ChartPoint p) {
  return {std::clamp(p.x, box.left, box.right), std::clamp(p.y, box.top, box.bottom)};
}

double side_of(ChartPoint a, ChartPoint b, ChartPoint c) {
  return (b.x - a.x) * (c.y - a.y) - (b.y - a.y) * (c.x - a.x);
}
bool cross(ChartPoint a, ChartPoint b, ChartPoint c, ChartPoint d) {
  return side_of(a, b, c) * side_of(a, b, d) < 0 && side_of(c, d, a) * side_of(c, d, b) < 0;
}
bool crosses(const Candidate& line, const Box& box) {
  const ChartPoint corners[] = {
      {box.left, box.top}, {box.right, box.top}, {box.right, box.bottom}, {box.left, box.bottom}};
  return cross(line.from, line.to, corners[0], corners[2]) ||
         cross(line.from, line.to, corners[1], corners[3]);
}
bool passes(const Candidate& line, const Circle& circle) {
  const ChartPoint d = {line.to.x - line.from.x, line.to.y - line.from.y};
  const double squared = std::max(d.x * d.x + d.y * d.y, 1e-9);
  const double at = std::clamp(
      ((circle.x - line.from.x) * d.x + (circle.y - line.from.y) * d.y) / squared, 0.0, 1.0);
  return std::hypot(line.from.x + at * d.x - circle.x, line.from.y + at * d.y - circle.y) <
         circle.radius;
}

std::vector<Candidate> candidates_of(const Circle& circle, const Box& frame) {
  std::vector<Candidate> all;
  const double w = circle.label_width / 2, h = circle.label_height / 2;
  for (const double distance : kDistances)
    for (int i = 0; i < kDirections; ++i) {
      const double angle = 2 * std::numbers::pi * i / kDirections, cos = std::cos(angle),
                   sin = std::sin(angle), reach = circle.radius + distance;
      const double x = circle.x + reach * cos + (std::fabs(cos) < 1e-9 ? 0 : w * cos),
                   y = circle.y + reach * sin + h * sin;
      const Box box = {x - w, y - h, x + w, y + h};
      if (box.left < frame.left || box.right > frame.right || box.top < frame.top ||
          box.bottom > frame.bottom)
        continue;
      const ChartPoint to = nearest(box, {circle.x, circle.y});
      const double far = std::hypot(to.x - circle.x, to.y - circle.y);
      if (far < circle.radius) continue;  // a corner reaches into it
      const double edge = circle.radius / std::max(far, 1e-9);
      all.push_back({box,
                     {circle.x + edge * (to.x - circle.x), circle.y + edge * (to.y - circle.y)},
                     to,
                     far - circle.radius});
    }
  return all;
}

class Placer {
 public:
  Placer(const std::vector<Circle>& circles, const Box& frame)
      : circles_(circles), placed_(circles.size()), is_placed_(circles.size(), false) {
    for (const Circle& circle : circles) candidates_.push_back(candidates_of(circle, frame));
    for (size_t i = 0; i < circles.size(); ++i) {  // where there is no room, on the circle
      const Circle& circle = circles[i];
      const double w = circle.label_width / 2, h = circle.label_height / 2;
      placed_[i] = {{circle.x - w, circle.y - h, circle.x + w, circle.y + h}, {}, {}, 0};
    }
  }

  const std::vector<Candidate>& run() {
    for (int round = 0; round < kRounds; ++round)
      for (size_t i = 0; i < circles_.size(); ++i) place(i);
    return placed_;
  }

 private:
  void place(size_t i) {
    double least = std::numeric_limits<double>::infinity();
    is_placed_[i] = false;
    for (const Candidate& candidate : candidates_[i]) {
      const double cost = cost_of(i, candidate, least);
      if (cost < least) {
        least = cost;
        placed_[i] = candidate;
      }
    }
    is_placed_[i] = true;
  }

  double cost_of(size_t i, const Candidate& own, double limit) const {
    const bool has_line = own.distance > kNear;
    double cost = own.distance;
    for (size_t j = 0; j < circles_.size() && cost < limit; ++j) {
      const Circle& circle = circles_[j];
      const ChartPoint p = nearest(own.box, {circle.x, circle.y});
      const double within = circle.radius - std::hypot(p.x - circle.x, p.y - circle.y);
      if (within > 0) cost += kOnCircle * (2 + within);
      if (has_line && j != i && passes(own, circle)) cost += kThroughCircle;
      if (j == i || !is_placed_[j]) continue;
      const Candidate& other = placed_[j];
      if (const double covered = overlap(own.box, other.box); covered > 0)
        cost += kOnLabel * (2 + covered);
      if (has_line && crosses(own, other.box)) cost += kThroughLabel;
      if (other.distance <= kNear) continue;
      if (crosses(other, own.box)) cost += kThroughLabel;
      if (has_line && cross(own.from, own.to, other.from, other.to)) cost += kThroughLine;
    }
    return cost;
  }

  const std::vector<Circle>& circles_;
  std::vector<std::vector<Candidate>> candidates_;
  std::vector<Candidate> placed_;
  std::vector<bool> is_placed_;
};

}  // namespace

double circle_radius(double area, double largest) {
  return kLargestRadius * std::sqrt(area / largest);
}

std::vector<double> scale_areas(double smallest, double largest) {
  std::vector<double> areas = {std::exp2(std::floor(std::log2(largest)))};
  while (areas.size() < kMaxScale && areas.back() / 4 >= smallest)
    areas.push_back(areas.back() / 4);
  return areas;
}

std::vector<PlacedLabel> place_labels(const std::vector<Circle>& circles, const Box& frame) {
  std::vector<PlacedLabel> labels;
  const std::vector<Candidate> placed = Placer(circles, frame).run();
  for (size_t i = 0; i < circles.size(); ++i) {
    const Candidate& at = placed[i];
    const Circle& circle = circles[i];
    PlacedLabel label{(at.box.left + at.box.right) / 2, at.box.bottom - 0.28 * circle.label_height,
                      "middle"};
    if (at.box.left >= circle.x) label.x = at.box.left, label.anchor = "start";
    if (at.box.right <= circle.x) label.x = at.box.right, label.anchor = "end";
    label.has_line = at.distance > kNear;
    label.from_x = at.from.x, label.from_y = at.from.y;
    label.to_x = at.to.x, label.to_y = at.to.y;
    labels.push_back(label);
  }
  return labels;
}

}  // namespace linea
