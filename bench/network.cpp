#include "bench/network.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/settings.h"
#include "parallel/ranks.h"
#include "train/timing.h"

namespace linea::bench {
namespace {

// Half of the time that `bytes` bytes take to rank 1 and back.
double message_seconds(size_t bytes) {
  std::vector<uint8_t> own(bytes), back(bytes);
  const auto once = [&] {
    if (ranks().is_main()) ranks().post(1, own);
    if (ranks().rank() <= 1)
      ranks().take(1 - ranks().rank(), back.data(), bytes, "the time of a message");
    if (ranks().rank() == 1) ranks().post(0, own);
  };
  std::vector<double> times;
  for (int i = 0; i < 9; ++i) {
    slowest(0);
    const Stopwatch watch;
    once();
    times.push_back(watch.seconds() / 2);
  }
  return slowest(ranks().is_main() ? median(times) : 0);
}

}  // namespace

double slowest(double seconds) {
  double result = 0;
  for (const double one : ranks().all_gather(seconds, "a round")) result = std::max(result, one);
  return result;
}

Network measure_network() {
  constexpr size_t kLarge = size_t{1} << 24;
  const double alpha = message_seconds(8);
  return {alpha, static_cast<double>(kLarge) / std::max(1e-9, message_seconds(kLarge) - alpha)};
}

}  // namespace linea::bench
