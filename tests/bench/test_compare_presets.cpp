// The presets of linea compare restrict each mechanism that restricts which keys are read.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "bench/compare.h"
#include "nn/model.h"

namespace linea::bench {
namespace {

TEST(ComparePresets, ReadAtMostAQuarterOfTheShortestTask) {
  for (const ComparePreset& preset : compare_presets()) {
    CompareRequest request;
    request.preset = preset.name;
    std::map<std::string, TaskShape> shapes;
    int64_t shortest = 1000000, restricted = 0;
    for (const std::string& task : split_list(preset.tasks)) {
      if (task == "text") continue;  // reads a file
      shapes[task] = make_task(task_options(run_config(request, task, "softmax", 1), ""))->shape();
      shortest = std::min(shortest, shapes[task].length);
    }
    for (const auto& [task, shape] : shapes)
      for (const Compared& mechanism : compared_attentions(preset.attentions)) {
        const RunConfig config = run_config(request, task, mechanism.attention, 1);
        if (!exclusion(config, shape).empty()) continue;
        if (mechanism.attention == "image-local-2d") continue;  // has no sizes, and is marked
        const double keys = keys_read(model_config(config, shape), shortest);
        EXPECT_LE(4 * keys, static_cast<double>(shortest))
            << preset.name << ": " << mechanism.attention << " on " << task;
        restricted += keys > 0 ? 1 : 0;
      }
    EXPECT_GE(restricted, 7) << preset.name;
  }
}

}  // namespace
}  // namespace linea::bench
