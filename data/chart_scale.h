// The scale of a chart's axis: the position of a value, and which values have a tick.
#pragma once

#include <string>
#include <vector>

#include "data/chart.h"

namespace linea {

class Scale {
 public:
  // Holds all values of the series that the axis can show, and a margin at both ends as a share of
  // their range.
  Scale(const Axis& axis, const std::vector<Series>& series, std::vector<double> Series::*values,
        double margin);

  bool shows(double value) const;
  double position(double value) const { return (at(value) - low_) / (high_ - low_); }  // 0 to 1
  const std::vector<double>& ticks() const { return ticks_; }
  // All with as many decimals, thousands as 10k where the largest is 10,000 or more.
  const std::vector<std::string>& labels() const { return labels_; }

 private:
  double at(double value) const;
  bool is_by_decades() const;
  double step() const;
  std::vector<double> automatic_ticks() const;
  void label_ticks(bool evenly_spaced);

  bool log_;
  double low_, high_;
  std::vector<double> ticks_;
  std::vector<std::string> labels_;
};

}  // namespace linea
