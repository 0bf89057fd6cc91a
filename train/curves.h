// Curves of what runs recorded, as charts.
#pragma once

#include <string>
#include <vector>

#include "data/chart.h"
#include "train/run_history.h"

namespace linea {

constexpr size_t kMaxCurvePoints = 300;  // half of the pixels; more points become means

// The curves of a metric and of its validation, over steps or over the time of training. `names`
// are those of the runs in the legend.
Chart metric_chart(const std::string& metric, const std::vector<RunHistory>& runs,
                   const std::vector<std::string>& names, bool over_time);

}  // namespace linea
