// What `linea compare` has by name: small models of the tasks, and presets of them. A task more is
// an entry of compared_tasks() and a name in a preset.
#include <algorithm>

#include "bench/compare.h"

namespace linea::bench {
namespace {

constexpr const char* kSmall =
    "layers = 2\nheads = 2\ndim = 64\nffn = 256\nlr = 1e-3\nmin_lr = 1e-4\nwarmup = 50\n";

// Restricted mechanisms read at most a quarter of the shortest task, 32 of 128 positions.
constexpr const char* kSizes =
    "window = 12\npattern = \"band:12\"\nblock = 8\nrandoms = 1\nglobals = 4\nstride = 16\n"
    "summary = 2\nouter = 64\nslots = 32\nclusters = 16\nkeys = 8\n";

}  // namespace

const std::vector<ComparedTask>& compared_tasks() {
  static const std::vector<ComparedTask> tasks = {
      {"copy", "task = \"copy\"\nlength = 128\nbatch = 32\nsteps = 600\n"},
      {"retrieval", "task = \"retrieval\"\nassociations = 20\nbatch = 32\nsteps = 2000\n"},
      {"digits",
       "task = \"digits\"\nsize = 14\nlevels = 6\npredict = \"class\"\nbatch = 32\nsteps = 500\n"},
      {"listops",
       "task = \"listops\"\nlistops_depth = 6\nlistops_args = 5\nlistops_min = 24\n"
       "listops_max = 256\nbatch = 32\nsteps = 800\n"},
      {"text", "task = \"text\"\nlength = 256\nbatch = 8\nsteps = 1000\n"}};
  static const std::vector<ComparedTask> with_model = [] {
    std::vector<ComparedTask> all = tasks;
    for (ComparedTask& task : all) task.settings = kSmall + task.settings;
    return all;
  }();
  return with_model;
}

const std::vector<ComparePreset>& compare_presets() {
  static const std::vector<ComparePreset> presets = {
      {"compare-cpu", "text,copy,digits,listops", "all", "", kSizes},
      {"compare-quick", "digits,listops",
       "softmax,linear,linear:rule=gated,performer,local,bigbird,lsh,routing,sinkhorn,linformer,"
       "nystrom,luna",
       "steps = 300\n", kSizes}};
  return presets;
}

std::vector<std::string> compare_preset_names() {
  std::vector<std::string> names;
  for (const ComparePreset& preset : compare_presets()) names.push_back(preset.name);
  return names;
}

const ComparePreset* find_compare_preset(const std::string& name) {
  if (name.empty()) return nullptr;
  for (const ComparePreset& preset : compare_presets())
    if (preset.name == name) return &preset;
  fail(ErrorKind::usage, "there is no preset '{}' of comparisons; choose one of {}", name,
       fmt::join(compare_preset_names(), ", "));
}

}  // namespace linea::bench
