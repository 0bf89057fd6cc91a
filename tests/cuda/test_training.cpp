// Whole models: steps of training and sampled tokens on the device are those of the CPU, in float
// to rounding and in bf16 within a band; two runs give the same bits.
#include <algorithm>

#include "nn/generation.h"
#include "nn/transformer.h"
#include "tests/cuda/parity.h"
#include "tests/nn/attention_options.h"
#include "train/run/training_step.h"

namespace linea::cuda_tests {
namespace {

RunConfig small(const std::string& attention) {
  RunConfig config;
  config.task = "digits";
  config.task_settings = {{"size", 12}, {"levels", 8}};
  config.attention = attention;
  config.attention_settings = declared_only(attention, {{"codes", 4}, {"features", 8}});
  config.layers = 2;
  config.heads = 2;
  config.dim = 16;
  config.ffn = 32;
  config.batch = 3;
  config.dropout = 0.1;
  config.lr = 3e-3;
  return config;
}

struct Trained {
  bool recorded = false;
  std::vector<double> losses, norms;
  std::vector<std::vector<double>> weights;
  std::vector<std::vector<int32_t>> sampled;
  std::vector<size_t> memory;  // that the device holds after each step
};

const Task& digits() {
  static const std::unique_ptr<Task> task = [] {
    TaskOptions options = task_options(small("linear"), "");
    options.settings["examples"] = 200;
    return make_task(options);
  }();
  return *task;
}

Trained train(const RunConfig& config, int64_t steps, bool recorded = true) {
  Transformer model(model_config(config, digits().shape()));
  Optimizer optimizer(optimizer_config(config), model.parameters());
  TrainingStep training(model, optimizer, digits(), config, recorded);
  Trained result;
  for (int64_t step = 0; step < steps; ++step) {
    model.before_step(step, steps);
    const StepResult made = training.run(step, config.lr);
    EXPECT_TRUE(made.updated);
    result.losses.push_back(made.loss);
    result.norms.push_back(made.gradient_norm);
    result.memory.push_back(device_allocator().use().held + device_allocator().use().cached);
  }
  result.recorded = training.captures();
  for (const Parameter& parameter : model.parameters())
    result.weights.push_back(parameter.var.value().to_doubles());
  SamplingOptions sampling;
  sampling.greedy = true;
  result.sampled = sample_tokens(model, sampling, {{8}, {8}, {8}}, 20);
  return result;
}

struct Variant {
  const char *attention, *feature, *rule;
  bool reversible = false;
  bool convolved = false;  // in two dimensions, with gated outputs, by Muon
};

class CudaTraining : public testing::TestWithParam<Variant> {
 protected:
  RunConfig config() const {
    RunConfig result = small(GetParam().attention);
    if (*GetParam().feature != 0) result.attention_settings["feature"] = GetParam().feature;
    if (result.attention == "linear") result.attention_settings["rule"] = GetParam().rule;
    result.reversible = GetParam().reversible;
    if (GetParam().convolved) {
      result.layer_convolution = "2d";
      result.attention_output = "gated";
      result.optimizer = "muon";
    }
    return result;
  }
};

void expect_alike(const Trained& got, const Trained& expected) {
  for (size_t step = 0; step < expected.losses.size(); ++step)
    EXPECT_NEAR(got.losses[step], expected.losses[step], 2e-5 * static_cast<double>(step + 1))
        << "step " << step;
  size_t alike = 0;
  for (size_t row = 0; row < expected.sampled.size(); ++row)
    alike += got.sampled[row] == expected.sampled[row] ? 1 : 0;
  EXPECT_GE(alike + (real_gpu ? 1 : 0), expected.sampled.size());
  // Adam divides by the root of a gradient's square: elements whose gradients are rounding alone
  // may step either way.
  for (size_t i = 0; i < expected.weights.size(); ++i) {
    size_t apart = 0;
    for (size_t j = 0; j < expected.weights[i].size(); ++j)
      apart += std::abs(got.weights[i][j] - expected.weights[i][j]) > 1e-4 ? 1 : 0;
    EXPECT_LE(static_cast<double>(apart), 0.02 * static_cast<double>(expected.weights[i].size()))
        << "parameter " << i;
  }
}

TEST_P(CudaTraining, StepsMatchTheCpu) {
  const int64_t steps = a_share() ? 2 : 4;
  const Trained expected = train(config(), steps);
  const On device(kCuda);
  expect_alike(train(config(), steps), expected);
}

void expect_same_bits(const Trained& first, const Trained& second) {
  EXPECT_EQ(first.losses, second.losses);
  EXPECT_EQ(first.norms, second.norms);
  EXPECT_EQ(first.weights, second.weights);
}

// The first step is done plainly, the second while it is recorded, the others by what was, which
// allocate nothing. So are two runs the same.
TEST_P(CudaTraining, CapturedStepsMatchEagerOnes) {
  if (kSanitized) GTEST_SKIP() << "this build keeps no memory, so it records nothing";
  const On device(kCuda);
  RunConfig settings = config();
  settings.batch = 2;
  settings.accumulate = 2;
  const Trained recorded = train(settings, 4), plain = train(settings, 4, false);
  EXPECT_EQ(recorded.recorded, settings.attention != "vq");  // whose codes the host counts
  EXPECT_FALSE(plain.recorded);
  expect_same_bits(recorded, plain);
  EXPECT_EQ(recorded.memory[3], recorded.memory[2]);
  EXPECT_EQ(plain.memory[3], plain.memory[2]);
}

// Its sequences have other lengths at each step, so that none is captured.
TEST(CudaSteps, SkippedBlanksMatchTheCpu) {
  RunConfig settings = small("linear");
  settings.attention_settings["rule"] = "gated";
  settings.layer_convolution = "2d";
  settings.skip_blank = true;
  settings.dropout = 0;
  settings.dtype = "fp32";
  const Trained expected = train(settings, 3);
  const On device(kCuda);
  const Trained got = train(settings, 3);
  EXPECT_FALSE(got.recorded);
  expect_alike(got, expected);
  expect_same_bits(train(settings, 3), got);
  settings.dtype = "bf16";
  const Trained halves = train(settings, 3);
  EXPECT_NE(halves.losses, got.losses);
  for (size_t step = 0; step < 3; ++step)
    EXPECT_NEAR(halves.losses[step], got.losses[step], 0.02 * got.losses[step]);
}

TEST(CudaSteps, CapturedBf16StepsMatchEagerOnes) {
  if (kSanitized) GTEST_SKIP() << "this build keeps no memory, so it records nothing";
  const On device(kCuda);
  RunConfig settings = small("linear");
  settings.dtype = "bf16";
  settings.batch = 1;
  settings.accumulate = 2;
  const Trained recorded = train(settings, 3);
  EXPECT_TRUE(recorded.recorded);
  expect_same_bits(recorded, train(settings, 3, false));
}

// Weights become bf16 within their layer.
TEST(CudaSteps, NonfiniteWeightsNameTheirLayerInBf16) {
  const On device(kCuda);
  RunConfig settings = small("linear");
  settings.dtype = "bf16";
  const auto first_bad = [&](const std::string& name) -> std::string {
    const Transformer model(model_config(settings, digits().shape()));
    for (const Parameter& parameter : model.parameters())
      if (const Tensor value = parameter.var.value(); parameter.name == name)
        write_values(std::vector<double>(static_cast<size_t>(value.numel()), NAN), value);
    const DetectNonfinite detect;
    try {
      model.forward(Tensor::zeros({1, 4}, DType::i32), true);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_NE(first_bad("blocks.1.down.bias").find(" made in blocks.1 "), std::string::npos);
  EXPECT_NE(first_bad("blocks.0.qkv.weight").find(" made in blocks.0 "), std::string::npos);
  EXPECT_NE(first_bad("output_head.bias").find(" made in output_head "), std::string::npos);
  EXPECT_EQ(first_bad(""), "");
}

// What is run again in the backward does what it did at first: also where a pass without gradients
// has a shorter way.
TEST(CudaRecompute, GivesTheSameBitsInBf16) {
  const On device(kCuda);
  RunConfig settings = small("linear");
  settings.dtype = "bf16";
  const Trained kept = train(settings, 2, false);
  settings.recompute = true;
  expect_same_bits(train(settings, 2, false), kept);
}

INSTANTIATE_TEST_SUITE_P(
    Variants, CudaTraining,
    testing::Values(Variant{"linear", "", "sum"}, Variant{"linear", "dpfp", "sum"},
                    Variant{"linear", "", "gated"}, Variant{"linear", "", "delta"},
                    Variant{"linear", "", "gated-delta"}, Variant{"performer", "", "sum"},
                    Variant{"soft-vq", "", "sum"}, Variant{"vq", "", "sum"},
                    Variant{"softmax", "", "sum"}, Variant{"linear", "", "sum", true},
                    Variant{"linear", "", "gated", false, true}),
    [](const testing::TestParamInfo<Variant>& variant) {
      const Variant& v = variant.param;
      std::string name = std::string(v.attention) + v.feature + v.rule +
                         (v.reversible ? "reversible" : "") + (v.convolved ? "convolved" : "");
      name.erase(std::remove(name.begin(), name.end(), '-'), name.end());
      return name;
    });

// Past the model's length, where it begins again, and with random numbers; the CPU does each
// position plainly.
TEST_P(CudaTraining, SamplesMatchTheCpu) {
  ModelConfig sizes = model_config(config(), digits().shape());
  sizes.length = 24;
  const auto sampled = [&] {
    SamplingOptions sampling;
    sampling.top_k = 5;
    const Transformer model(sizes);
    return sample_tokens(model, sampling, {{1, 2}, {2, 3}, {3, 4}}, a_share() ? 30 : 60);
  };
  const auto expected = sampled();
  const On device(kCuda);
  context().sizes.token_buffer = 16;  // positions, so that it is gone through several times
  EXPECT_EQ(sampled(), expected);
}

size_t launches_of_step(int64_t layers, const std::string& dtype) {
  RunConfig config = small("linear");
  config.layers = layers;
  config.dropout = 0;
  config.dtype = dtype;
  Transformer model(model_config(config, digits().shape()));
  Optimizer optimizer(optimizer_config(config), model.parameters());
  TrainingStep training(model, optimizer, digits(), config);
  for (int64_t step = 0; step < 2; ++step) training.run(step, config.lr);
  return training.launches();
}

// A small batch takes what its launches take: there may be fewer of them, not more.
TEST(CudaSteps, AStepIsFewLaunches) {
  if (kSanitized) GTEST_SKIP() << "this build keeps no memory, so it records nothing";
  const On device(kCuda);
  struct Most {
    const char* dtype;
    size_t layer, outside;
  };
  for (const auto& [dtype, of_layer, outside] : {Most{"fp32", 55, 29}, Most{"bf16", 56, 33}}) {
    const size_t one = launches_of_step(1, dtype), layer = launches_of_step(2, dtype) - one;
    // How many launches a product is, the emulated cuBLAS knows: one.
    const size_t slack = real_gpu ? 20 : 0;
    EXPECT_LE(layer, of_layer + slack) << dtype;
    EXPECT_LE(one - layer, outside + slack) << dtype;
    EXPECT_GT(layer, 20u) << dtype;
  }
}

// The bits of the plain steps, of updates that are skipped too; a callback that is notified of one
// finds the gradients, which are not those of recorded memory.
TEST(CudaSteps, ASkippedUpdateReportsItsGradients) {
  if (kSanitized) GTEST_SKIP() << "this build keeps no memory, so it records nothing";
  const On device(kCuda);
  const auto run = [](bool recorded) {
    const RunConfig config = small("linear");
    Transformer model(model_config(config, digits().shape()));
    Optimizer optimizer(optimizer_config(config), model.parameters());
    TrainingStep training(model, optimizer, digits(), config, recorded);
    std::vector<std::vector<double>> seen;
    for (int64_t step = 0; step < 6; ++step) {
      const bool skips = step == 0 || step == 1 ||
                         step == 4;           // done plainly, while it is recorded, and afterwards
      const double limit = skips ? 1e-3 : 0;  // of the norm
      const StepResult result =
          training.run(step, config.lr, {0, limit}, [&](const StepResult& skipped) {
            seen.push_back({skipped.loss, skipped.gradient_norm});
            for (const Parameter& parameter : model.parameters())
              seen.push_back(parameter.var.grad().to_doubles());
          });
      EXPECT_EQ(result.updated, !skips) << step;
      EXPECT_FALSE(model.parameters()[0].var.grad().defined());
    }
    EXPECT_EQ(optimizer.updates(), 3);
    for (const Parameter& parameter : model.parameters())
      seen.push_back(parameter.var.value().to_doubles());
    return seen;
  };
  const auto plain = run(false);
  EXPECT_GT(plain.size(), 10u);
  EXPECT_EQ(run(true), plain);
}

// Its gradients are computed again for a callback that is notified; where there is no memory for
// that, training continues.
TEST(CudaSteps, ASkippedUpdateIsReportedWithoutMemory) {
  if (kSanitized) GTEST_SKIP() << "this build keeps no memory, so it records nothing";
  const On device(kCuda);
  RunConfig config = small("linear");
  config.accumulate = 2;
  Transformer model(model_config(config, digits().shape()));
  Optimizer optimizer(optimizer_config(config), model.parameters());
  TrainingStep training(model, optimizer, digits(), config);
  int batches = 0, told = 0;
  training.watch({[&] {
                    if (++batches == 4)
                      fail(ErrorKind::memory, "there is no more");  // the second, recomputed
                  },
                  {},
                  {}});
  for (int64_t step = 0; step < 4; ++step) {
    batches = 0;
    const bool skips = step == 2;
    const StepResult result =
        training.run(step, config.lr, {0, skips ? 1e-3 : 0}, [&](const StepResult&) {
          EXPECT_EQ(batches, 4);
          for (const Parameter& parameter : model.parameters())
            EXPECT_FALSE(parameter.var.grad().defined());
          ++told;
        });
    EXPECT_EQ(result.updated, !skips) << step;
  }
  EXPECT_EQ(told, 1);
  EXPECT_EQ(optimizer.updates(), 3);
  EXPECT_GT(training.launches(), 0u);
}

// The band: the mean loss of each ten steps within 3% of float's.
TEST(CudaSplitBf16, LossesTrackThoseOfFloat) {
  if (a_share()) GTEST_SKIP() << "too slow here; the release build's tests do it";
  const std::vector<std::string> attentions =
      long_tests() ? std::vector<std::string>{"linear", "performer", "softmax"}
                   : std::vector<std::string>{"linear", "softmax"};
  for (const std::string& attention : attentions) {
    const On device(kCuda);
    RunConfig config = small(attention);
    config.layers = 1;
    const int64_t kSteps = long_tests() ? 200 : 20;
    const Trained floats = train(config, kSteps);
    config.dtype = "bf16";
    config.device = "cuda";
    const Trained halves = train(config, kSteps);
    for (size_t first = 0; first < static_cast<size_t>(kSteps); first += 10) {
      double sum = 0, expected = 0;
      for (size_t step = first; step < first + 10; ++step) {
        sum += halves.losses[step];
        expected += floats.losses[step];
      }
      EXPECT_NEAR(sum, expected, 0.03 * expected) << attention << " from step " << first;
    }
  }
}

}  // namespace
}  // namespace linea::cuda_tests
