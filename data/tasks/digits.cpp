#include "data/tasks/digits.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "base/error.h"
#include "base/random.h"

namespace linea {
namespace {

constexpr int64_t kDefaultDigitSide = 28, kMinDigitSide = 12, kMaxDigitSide = 64;
constexpr int64_t kDefaultTrain = 20000, kMaxTrain = 1000000, kTest = 2000;
#ifdef LINEA_NAN_FILL  // every training run evaluates it: the sanitizers' tests would do little else
constexpr int64_t kVal = 100;
#else
constexpr int64_t kVal = 1000;
#endif
constexpr int64_t kDigitClasses = 10;
constexpr int kPointsPerCurve = 6;
constexpr float kJitter = 0.022f;  // of the points of a stroke, in glyphs

struct Point {
  float x = 0, y = 0;
};

enum class Bend { straight, smooth, loop };  // a loop is smooth and returns to its first point

// x, y, x, y .. in hundredths of a glyph.
struct Stroke {
  Bend bend;
  std::vector<int> coordinates;
};

// Strokes in a box 60 wide and 100 high around the origin, y down.
const std::vector<Stroke>& digit_strokes(int digit) {
  using enum Bend;
  static const std::vector<Stroke> kGlyphs[] = {
      {{loop, {0, -50, 21, -36, 29, 0, 21, 36, 0, 50, -21, 36, -29, 0, -21, -36}}},
      {{straight, {-17, -30, 5, -50, 5, 50}}},
      {{smooth, {-27, -26, -18, -44, 2, -50, 22, -41, 25, -20, 8, 10, -28, 48}},
       {straight, {-28, 48, 30, 48}}},
      {{smooth, {-26, -40, -2, -50, 21, -40, 21, -17, -6, -5}},
       {smooth, {-6, -5, 22, 6, 28, 27, 13, 46, -7, 50, -28, 39}}},
      {{straight, {12, 50, 12, -50, -31, 20, 32, 20}}},
      {{straight, {26, -49, -20, -49, -23, -6}},
       {smooth, {-23, -6, 1, -13, 22, -3, 28, 18, 18, 41, -4, 50, -27, 40}}},
      {{smooth, {20, -47, -5, -36, -22, -10, -27, 18, -16, 43,  4,
                 50, 22,  39, 27,  20,  15,  2,   -6, 0,   -25, 16}}},
      {{straight, {-29, -48, 29, -48, -8, 50}}},
      {{loop, {0, -50, 21, -40, 20, -19, 0, -4, -24, 12,  -25, 36,
               0, 50,  25, 36,  24, 12,  0, -4, -20, -19, -21, -40}}},
      {{smooth,
        {24, -17, 7, 0, -13, -1, -26, -18, -21, -41, 0, -50, 20, -42, 25, -20, 22, 10, 8, 50}}},
  };
  return kGlyphs[digit];
}

// The random numbers of one image, in sequence. Uniform only: no libm function, whose last bit may
// differ between machines.
class Draws {
 public:
  explicit Draws(const RandomStream& stream) : stream_(stream) {}
  float between(float low, float high) {
    return low + (high - low) * random_uniform(stream_, next_++);
  }
  float about(float middle, float spread) { return between(middle - spread, middle + spread); }

 private:
  RandomStream stream_;
  uint64_t next_ = 0;
};

// Unit square of the glyph to pixels: x' = width * (x + slant * y) + column, y' likewise.
struct Placement {
  float width, height, slant, tilt, column, row;

  Placement(Draws& draws, float side)
      : width(side * draws.between(0.66f, 0.8f)),
        height(side * draws.between(0.64f, 0.72f)),
        slant(draws.between(-0.24f, 0.06f)),
        tilt(draws.about(0, 0.06f)),
        column(side * draws.about(0.5f, 0.035f)),
        row(side * draws.about(0.5f, 0.035f)) {}

  Point operator()(Point point) const {
    return {column + width * (point.x + slant * point.y),
            row + height * (point.y + tilt * point.x)};
  }
};

// Catmull-Rom: the curve through b and c, a fraction t of the way, with tangents (c - a) / 2 and
// (d - b) / 2.
Point on_curve(Point a, Point b, Point c, Point d, float t) {
  const auto blend = [t](float p, float q, float r, float s) {
    return 0.5f *
           (2 * q + t * (r - p + t * (2 * p - 5 * q + 4 * r - s + t * (3 * (q - r) + s - p))));
  };
  return {blend(a.x, b.x, c.x, d.x), blend(a.y, b.y, c.y, d.y)};
}

std::vector<Point> flatten(Bend bend, std::span<const Point> points) {
  if (bend == Bend::straight) return {points.begin(), points.end()};
  const auto count = static_cast<int>(points.size());
  const auto at = [&](int i) {
    const int index = bend == Bend::loop ? (i + count) % count : std::clamp(i, 0, count - 1);
    return points[static_cast<size_t>(index)];
  };
  const int segments = bend == Bend::loop ? count : count - 1;
  std::vector<Point> line{at(0)};
  for (int i = 0; i < segments; ++i)
    for (int step = 1; step <= kPointsPerCurve; ++step)
      line.push_back(on_curve(at(i - 1), at(i), at(i + 1), at(i + 2),
                              static_cast<float>(step) / kPointsPerCurve));
  return line;
}

float distance_to_segment(Point p, Point a, Point b) {
  const float dx = b.x - a.x, dy = b.y - a.y, length2 = dx * dx + dy * dy;
  const float along = length2 > 0 ? ((p.x - a.x) * dx + (p.y - a.y) * dy) / length2 : 0;
  const float t = std::clamp(along, 0.0f, 1.0f);
  const float ex = p.x - a.x - t * dx, ey = p.y - a.y - t * dy;
  return std::sqrt(ex * ex + ey * ey);
}

// ink = max over segments of clamp(radius + 1/2 - distance, 0, 1): a pen with a soft edge one pixel
// wide. Only pixels that the pen can reach are visited.
void ink_segment(std::vector<float>& ink, int64_t side, Point a, Point b, float radius) {
  const float reach = radius + 0.5f;
  const auto pixel = [side](float position) {
    return std::clamp<int64_t>(static_cast<int64_t>(std::floor(position)), 0, side - 1);
  };
  const int64_t left = pixel(std::min(a.x, b.x) - reach), right = pixel(std::max(a.x, b.x) + reach);
  const int64_t top = pixel(std::min(a.y, b.y) - reach), bottom = pixel(std::max(a.y, b.y) + reach);
  for (int64_t row = top; row <= bottom; ++row)
    for (int64_t column = left; column <= right; ++column) {
      const Point center{static_cast<float>(column) + 0.5f, static_cast<float>(row) + 0.5f};
      float& value = ink[static_cast<size_t>(row * side + column)];
      value = std::max(value, std::min(1.0f, reach - distance_to_segment(center, a, b)));
    }
}

void render_digit(int digit, const RandomStream& stream, int64_t side, uint8_t* pixels) {
  Draws draws(stream);
  const auto scale = static_cast<float>(side);
  const Placement place(draws, scale);
  const float radius = scale * draws.between(0.05f, 0.068f);
  std::vector<float> ink(static_cast<size_t>(side * side), 0.0f);
  for (const Stroke& stroke : digit_strokes(digit)) {
    std::vector<Point> points;
    for (size_t i = 0; i < stroke.coordinates.size(); i += 2) {
      const float x = draws.about(0.01f * static_cast<float>(stroke.coordinates[i]), kJitter);
      const float y = draws.about(0.01f * static_cast<float>(stroke.coordinates[i + 1]), kJitter);
      points.push_back(place({x, y}));
    }
    const std::vector<Point> line = flatten(stroke.bend, points);
    for (size_t i = 1; i < line.size(); ++i) ink_segment(ink, side, line[i - 1], line[i], radius);
  }
  const float brightness = draws.between(240, 255);
  for (size_t i = 0; i < ink.size(); ++i)  // the background stays black: only ink is noisy
    if (ink[i] > 0)
      pixels[i] = static_cast<uint8_t>(ink[i] * brightness * draws.between(0.96f, 1) + 0.5f);
}

}  // namespace

ImageSet render_digits(uint64_t seed, int64_t first, int64_t count, int64_t side) {
  ImageSet set{side, 1, std::vector<uint8_t>(static_cast<size_t>(count * side * side)), {}};
  for (int64_t i = 0; i < count; ++i) {
    const auto index = static_cast<uint64_t>(first + i);
    const RandomStream ten{seed, Purpose::task, task_stream::kDigitLabels, index / kDigitClasses};
    const auto digit = random_permutation(ten, kDigitClasses, index % kDigitClasses);
    render_digit(static_cast<int>(digit), {seed, Purpose::task, task_stream::kDigitStrokes, index},
                 side, set.pixels.data() + i * side * side);
    set.labels.push_back(static_cast<uint8_t>(digit));
  }
  return set;
}

int64_t first_training_digit() { return kTest + kVal; }

namespace {

TaskShape digits_shape(const TaskOptions& options) {
  const int64_t side = options.settings.integer("size");
  require(side >= kMinDigitSide, "`size` is {}; digits need at least {}", side, kMinDigitSide);
  return image_shape(options, side, 1, kDigitClasses);
}

std::unique_ptr<Task> make_digits_task(const TaskOptions& options) {
  const TaskShape shape = digits_shape(options);
  ImageSplits splits{render_digits(options.seed, first_training_digit(),
                                   options.settings.integer("examples"), shape.side),
                     render_digits(options.seed, kTest, kVal, shape.side),
                     render_digits(options.seed, 0, kTest, shape.side)};
  return make_image_task(shape, std::move(splits), options);
}

}  // namespace

TaskEntry digits_task() {
  return {"digits",
          "handwritten digits that are made up, no files needed",
          image_settings(kDefaultDigitSide, kMaxDigitSide,
                         {declare::integer("examples", kDefaultTrain, {1, kMaxTrain},
                                           "images of the training split")}),
          make_digits_task,
          digits_shape,
          false,
          "size"};
}

}  // namespace linea
