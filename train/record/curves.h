// Curves of what runs recorded, as charts.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "data/chart.h"
#include "train/record/run_history.h"

namespace linea {

constexpr size_t kMaxCurvePoints = 300;  // half of the pixels; more points become means

struct CurveOptions {
  bool over_time = false;    // of training, instead of steps
  bool logarithmic = false;  // the vertical axis
  int64_t from = 0;          // the first step that is shown
  // Each point of a curve that is no validation becomes the mean of those of its own step +-
  // smooth / 2 (at the ends: of those that exist). The curve itself stays, pale. 0: no smoothing.
  int64_t smooth = 0;
};

// The metrics that have a chart: names from metrics.jsonl, and NAME for val_NAME. Numbers of the
// last step alone (whole_val_NAME) have none.
std::set<std::string> chart_metrics(const std::vector<RunHistory>& runs);

// The curves of a metric; where it has them also those of its validation (val_NAME), of averaged
// weights (NAME_ema) and of real data (NAME_real). `names` are those of the runs in the legend.
Chart metric_chart(const std::string& metric, const std::vector<RunHistory>& runs,
                   const std::vector<std::string>& names, const CurveOptions& options = {});

}  // namespace linea
