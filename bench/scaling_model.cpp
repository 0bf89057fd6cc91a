#include "bench/scaling_model.h"

#include <algorithm>
#include <cmath>

namespace linea::bench {

double ScalingModel::sum_seconds(double floats, int64_t W, const Network& network) const {
  if (W == 1) return 0;
  const auto others = static_cast<double>(W - 1);
  const double bytes = others / static_cast<double>(W) * sizeof(float) * floats;
  return 2 * (others * network.alpha + bytes / network.beta) + gamma * floats;
}

double ScalingModel::step_seconds(double compute, double share, int64_t W,
                                  const Network& network) const {
  double end = 0;
  for (const Bucket& bucket : buckets)
    end = std::max(end, share * bucket.ready) + sum_seconds(bucket.floats, W, network);
  return std::max(compute, end) + sigma * compute * std::sqrt(2 * std::log(static_cast<double>(W)));
}

}  // namespace linea::bench
