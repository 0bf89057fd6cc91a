#include "data/chart_scale.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace linea {
namespace {

constexpr int kTicks = 6;  // about as many on a linear axis
constexpr int kMaxDecimals = 6;
constexpr double kFewDecades = 0.3;  // below it a logarithmic axis is nearly linear

// 0.00001 as 1e-5.
std::string short_number(double value) {
  std::string text = fmt::format("{:.6g}", value);
  const size_t exponent = text.find('e');
  if (exponent == std::string::npos) return text;
  return fmt::format("{}e{}", text.substr(0, exponent), std::stoi(text.substr(exponent + 1)));
}

bool is_multiple(double value, double unit) {
  return std::fabs(value / unit - std::round(value / unit)) < 1e-6;
}

// The decimals of a step, kMaxDecimals + 1 where that is not enough.
int decimals_of(double step) {
  int decimals = 0;
  while (decimals <= kMaxDecimals && !is_multiple(step, std::pow(10.0, -decimals))) ++decimals;
  return decimals;
}

// Digits between powers of ten on a logarithmic axis of `span` decades.
std::vector<double> digits_for(double span) {
  if (span >= 3) return {1};
  if (span >= 1) return {1, 2, 5};
  return {1, 1.5, 2, 3, 4, 5, 6, 7, 8};
}

}  // namespace

Scale::Scale(const Axis& axis, const std::vector<Series>& series,
             std::vector<double> Series::*values, double margin)
    : log_(axis.logarithmic) {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  for (const Series& one : series)
    for (const double value : one.*values) {
      if (!shows(value)) continue;
      low = std::min(low, at(value));
      high = std::max(high, at(value));
    }
  if (low > high) low = high = 0;  // nothing to show
  if (high - low < 1e-12 * std::max(std::fabs(low), 1.0)) low -= 0.5, high += 0.5;
  low_ = low - margin * (high - low);
  high_ = high + margin * (high - low);
  for (const double tick : axis.ticks.empty() ? automatic_ticks() : axis.ticks)
    if (shows(tick) && at(tick) >= low_ && at(tick) <= high_) ticks_.push_back(tick);
  label_ticks(axis.ticks.empty() && !is_by_decades());
}

bool Scale::shows(double value) const { return std::isfinite(value) && (!log_ || value > 0); }

double Scale::at(double value) const { return log_ ? std::log10(value) : value; }

bool Scale::is_by_decades() const { return log_ && high_ - low_ >= kFewDecades; }

// 1, 2, 2.5 or 5 times a power of ten, whichever is nearest to a kTicks-th of the axis.
double Scale::step() const {
  const double low = log_ ? std::pow(10.0, low_) : low_,
               high = log_ ? std::pow(10.0, high_) : high_;
  const double raw = high / kTicks - low / kTicks,
               power = std::pow(10.0, std::floor(std::log10(raw)));
  const double digit = raw / power;
  return power * (digit < 1.41 ? 1 : digit < 2.24 ? 2 : digit < 3.54 ? 2.5 : digit < 7.07 ? 5 : 10);
}

// On a logarithmic axis: powers of ten, with digits between them if there are few, thinned out if
// there are many. On a linear one, and for less than a factor of 2: multiples of step().
std::vector<double> Scale::automatic_ticks() const {
  std::vector<double> ticks;
  const double span = high_ - low_;
  if (is_by_decades()) {
    const int every = static_cast<int>(std::ceil(span / 10));
    for (int power = static_cast<int>(std::floor(low_));
         power <= static_cast<int>(std::ceil(high_)); ++power)
      if (power % every == 0)
        for (const double digit : digits_for(span)) ticks.push_back(digit * std::pow(10.0, power));
    return ticks;
  }
  const double low = log_ ? std::pow(10.0, low_) : low_,
               high = log_ ? std::pow(10.0, high_) : high_;
  for (double i = std::ceil(low / step()); i * step() <= high; ++i)
    ticks.push_back(i * step() + 0.0);  // no -0
  return ticks;
}

void Scale::label_ticks(bool evenly_spaced) {
  double largest = 0;
  for (const double tick : ticks_) largest = std::max(largest, std::fabs(tick));
  for (const auto& [unit, suffix] : {std::pair{1e6, "M"}, {1e3, "k"}}) {
    if (largest < 10 * unit || largest >= 1e4 * unit) continue;
    if (!std::all_of(ticks_.begin(), ticks_.end(),
                     [&, unit = unit](double tick) { return is_multiple(tick, unit / 2); }))
      continue;
    for (const double tick : ticks_)
      labels_.push_back(tick == 0 ? "0" : fmt::format("{:g}{}", tick / unit, suffix));
    return;
  }
  const int decimals = evenly_spaced ? decimals_of(step()) : kMaxDecimals + 1;
  for (const double tick : ticks_)
    labels_.push_back(tick == 0 || decimals > kMaxDecimals || largest >= 1e6
                          ? short_number(tick)
                          : fmt::format("{:.{}f}", tick, decimals));
}

}  // namespace linea
