#include "bench/scaling_model.h"

#include <algorithm>
#include <cmath>

#include "parallel/ranks.h"

namespace linea::bench {

double ScalingModel::sum_seconds(double floats, int64_t W, const Network& network) const {
  // In each round trip of a group of `peers`.
  const auto there_and_back = [&](double peers, double n, double bytes) {
    return (peers - 1) * (2 * network.alpha + bytes * n / peers / network.beta);
  };
  const double group = ranks_of_a_group(static_cast<int>(W)),
               groups = static_cast<double>(W) / group;
  return W == 1 ? 0
                : there_and_back(group, floats, 2 * sizeof(float)) +
                      there_and_back(groups, floats / group, sizeof(double) + sizeof(float)) +
                      gamma * floats;
}

double ScalingModel::step_seconds(double compute, double share, int64_t W,
                                  const Network& network) const {
  double end = 0;
  for (const Bucket& bucket : buckets)
    end = std::max(end, share * bucket.ready) + sum_seconds(bucket.floats, W, network);
  return std::max(compute, end) + sigma * compute * std::sqrt(2 * std::log(static_cast<double>(W)));
}

double ScalingModel::scan_seconds(double attention, const std::vector<double>& state, int64_t P,
                                  const Network& network) {
  double messages = 0;
  for (const double bytes : state) messages += network.alpha + bytes / network.beta;
  return attention * 4 / 14 + 2 * std::ceil(std::log2(static_cast<double>(P))) * messages;
}

}  // namespace linea::bench
