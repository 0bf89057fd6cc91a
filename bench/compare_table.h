// The table of a comparison as text, for compare.md, report.html and the description of the image.
#pragma once

#include <string>
#include <vector>

#include "bench/compare.h"
#include "data/chart.h"

namespace linea::bench {

struct CompareTable {
  std::vector<std::string> titles;             // the mechanism, tasks, mean ...
  std::vector<std::vector<std::string>> rows;  // by mechanism
  std::vector<std::string> notes;              // what marks mean, and failures
};
CompareTable table_of(const Comparison& comparison);

// Speed, score and memory of each mechanism in one image, in which a circle is one.
Chart compare_chart(const Comparison& comparison);

}  // namespace linea::bench
