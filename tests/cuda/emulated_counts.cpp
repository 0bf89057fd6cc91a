// What only an emulated device can count (cuda/emulator/counts.h): the accesses of the hot kernels in
// a bf16 model, and the nodes of a recorded step.
#include <array>
#include <utility>

#include "cuda/emulator/checker.h"
#include "cuda/emulator/counts.h"
#include "cuda/emulator/settings.h"
#include "nn/generation.h"
#include "nn/transformer.h"
#include "tests/cuda/parity.h"
#include "train/run/training_step.h"

namespace linea::cuda_tests {
namespace {

using emulator::AccessCount;
using emulator::NodeKind;

// Two heads of D = M, on images of 16 x 16.
RunConfig model_of(const std::string& attention, int64_t D, const std::string& convolution,
                   const std::string& dtype = "bf16", int64_t layers = 1) {
  RunConfig config;
  config.task = "digits";
  config.task_settings = {{"size", 16}, {"levels", 8}};
  config.attention = attention;
  config.layer_convolution = convolution;
  config.layers = layers;
  config.heads = 2;
  config.dim = 2 * D;
  config.ffn = 2 * D;
  config.batch = 1;
  config.dropout = 0;
  config.dtype = dtype;
  return config;
}

// Two steps, the second of which is recorded; then samples of `sampled` positions.
void train_and_sample(const RunConfig& config, int64_t sampled = 0) {
  TaskOptions options = task_options(config, "");
  options.settings["examples"] = 20;
  const std::unique_ptr<Task> task = make_task(options);
  Transformer model(model_config(config, task->shape()));
  Optimizer optimizer(optimizer_config(config), model.parameters());
  TrainingStep training(model, optimizer, *task, config);
  for (int64_t step = 0; step < 2; ++step) training.run(step, config.lr);
  if (sampled > 0) sample_tokens(model, {}, {{1}}, sampled);
}

// Part of a kernel's name; the mean bytes of a lane that it loads from global memory, at least; and
// the mean bank conflicts of a shared load and of a shared store, at most.
struct HotKernel {
  const char* name;
  double bytes, of_loads = 0, of_stores = 0;
};
constexpr HotKernel kHotKernels[] = {
    {"forward_walk<32>", 14, 0.15, 2.8},
    {"forward_walk<64>", 15},
    {"forward_walk<128>", 15},
    {"query_walk<32>", 14, 0.15, 2.8},
    {"query_walk<64>", 15},
    {"query_walk<128>", 15},
    {"key_walk<32>", 14, 0.15, 2.8},
    {"key_walk<64>", 15},
    {"key_walk<128>", 15},
    {"attend_tiles<32>", 14, 0, 3.4},
    {"attend_tiles<64>", 15},
    {"attend_tiles<128>", 15},
    {"gradient_of_query_tiles<32>", 14, 0, 3.4},
    {"gradient_of_query_tiles<64>", 15},
    {"gradient_of_query_tiles<128>", 15},
    {"gradient_of_key_tiles<32>", 14, 0, 3.4},
    {"gradient_of_key_tiles<64>", 15},
    {"gradient_of_key_tiles<128>", 15},
    {"::Of)0, linea::BFloat16, 4, 8>", 16},
    {"::Of)1, linea::BFloat16, 4, 8>", 16},
    {"::Of)0, linea::BFloat16, 6, 8>", 16},
    {"::Of)1, linea::BFloat16, 6, 8>", 16},
    {"RecurrentStep<linea::BFloat16", 6, 0, 1.5},
    {"LanesTeam, 8>, linea::cuda::layer_norm<linea::BFloat16>", 15},
    {"LanesTeam, 8>, linea::cuda::layer_norm_backward<linea::BFloat16>", 12}};

double ratio(uint64_t a, uint64_t b) {
  return b == 0 ? 0 : static_cast<double>(a) / static_cast<double>(b);
}

// Bank conflicts: passes beyond those that the width of the access takes.
double conflicts(const AccessCount& count) {
  return ratio(count.units - count.min_units, count.accesses);
}

// Rows are read by whole sectors. tools/access_counts.py prints the counts.
TEST(CudaCounts, AccessesOfTheHotKernels) {
  if (emulator::checker == nullptr) GTEST_SKIP() << "only test_cuda_checked counts";
  const On device(kCuda);
  const bool before = std::exchange(emulator::settings().counts, true);
  train_and_sample(model_of("linear", 32, "none"), 2 * kMaxPending);
  train_and_sample(model_of("linear", 64, "2d"), 2 * kMaxPending);
  train_and_sample(model_of("linear", 128, "1d"), 2 * kMaxPending);
  for (const int64_t D : {32, 64, 128}) train_and_sample(model_of("softmax", D, "none"));
  emulator::settings().counts = before;
  for (const HotKernel& hot : kHotKernels) {
    bool found = false;
    for (const auto& [kernel, counts] : emulator::kernel_counts()) {
      if (counts.name.find(hot.name) == std::string::npos) continue;
      SCOPED_TRACE(counts.name);
      found = true;
      const AccessCount &loads = counts.global_loads, &shared_loads = counts.shared_loads,
                        &shared_stores = counts.shared_stores;
      EXPECT_GE(ratio(loads.bytes, loads.lanes), hot.bytes);
      EXPECT_LE(ratio(loads.units, loads.min_units), 1.02);
      EXPECT_LE(conflicts(shared_loads), hot.of_loads);
      EXPECT_LE(conflicts(shared_stores), hot.of_stores);
    }
    EXPECT_TRUE(found) << hot.name;
  }
}

using Nodes = std::array<size_t, 3>;  // kernels, memsets, copies

Nodes nodes_of_step(const std::string& dtype, int64_t layers) {
  const auto counts = [] {
    return Nodes{emulator::node_count(NodeKind::kernel), emulator::node_count(NodeKind::memset),
                 emulator::node_count(NodeKind::copy)};
  };
  const Nodes before = counts();
  train_and_sample(model_of("linear", 32, "none", dtype, layers));
  Nodes nodes = counts();
  for (size_t kind = 0; kind < nodes.size(); ++kind) nodes[kind] -= before[kind];
  return nodes;
}

// There may be fewer, not more.
TEST(CudaCounts, NodesOfAStep) {
  if (kSanitized) GTEST_SKIP() << "this build keeps no memory, so it records nothing";
  const On device(kCuda);
  struct Limits {
    const char* dtype;
    Nodes layer, outside;
  };
  for (const auto& [dtype, layer, outside] :
       {Limits{"fp32", {49, 6, 0}, {27, 2, 0}}, Limits{"bf16", {38, 6, 0}, {31, 2, 0}}}) {
    const Nodes one = nodes_of_step(dtype, 1), two = nodes_of_step(dtype, 2);
    EXPECT_GT(two[0] - one[0], 20u) << dtype;
    for (size_t kind = 0; kind < one.size(); ++kind) {
      EXPECT_LE(two[kind] - one[kind], layer[kind]) << dtype << ", kind " << kind;
      EXPECT_LE(2 * one[kind] - two[kind], outside[kind]) << dtype << ", kind " << kind;
    }
  }
}

}  // namespace
}  // namespace linea::cuda_tests
