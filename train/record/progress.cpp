#include "train/record/progress.h"

#include <fmt/format.h>

#include "train/format.h"
#include "train/timing.h"

namespace linea {

std::function<void(int64_t, int64_t)> show_time_left(ProgressReporter& progress,
                                                     const std::string& what) {
  return [&progress, what, watch = Stopwatch()](int64_t done, int64_t all) {
    if (!progress.due(done == all)) return;
    const double left =
        watch.seconds() / static_cast<double>(done) * static_cast<double>(all - done);
    progress.show(
        fmt::format("{} of {} {}{}", done, all, what,
                    done < kTimedAfter ? "" : fmt::format(", {} left", format_duration(left))));
  };
}

}  // namespace linea
