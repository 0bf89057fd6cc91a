// Memory that runs out while a run is made, trains, saves or looks at its validation split: always the one error.
#include "tests/train/program.h"
#include "train/trainer.h"

namespace linea {
namespace {

class OutOfMemoryTest : public ProgramTest {
 protected:
  static RunConfig small_run() {
    RunConfig config;
    config.task = "copy";
    config.length = 8;
    config.layers = config.heads = 1;
    config.dim = config.ffn = 8;
    config.batch = config.steps = 2;
    config.threads = 1;
    return config;
  }
  void train(const RunConfig& config) const {
    fs::remove_all(path("run"));
    testing::internal::CaptureStderr();  // the notes of hundreds of runs
    try {
      Trainer(config, path("run"), false, false).run();
    } catch (...) {
      testing::internal::GetCapturedStderr();
      throw;
    }
    testing::internal::GetCapturedStderr();
  }
};

TEST_F(OutOfMemoryTest, WhicheverAllocationFails) {
  for (const bool recompute : {false, true}) {
    RunConfig config = small_run();
    config.attention = recompute ? "linear" : "softmax";
    config.recompute = recompute;
    train(config);
    const size_t before = cpu_memory().held;
    int64_t failed = 0, count = 0;
    for (bool passed = false; !passed && count < 20000;) {
      count += count < 300 ? 1 : 37;  // first each; later, where steps repeat themselves, some
      fail_cpu_allocation_at(count);
      try {
        train(config);
        passed = true;
      } catch (const Error& error) {
        ASSERT_EQ(error.kind(), ErrorKind::memory) << count << ": " << error.what();
        ++failed;
      }
      fail_cpu_allocation_at(0);
      ASSERT_EQ(cpu_memory().held, before) << "a leak where allocation " << count << " fails";
    }
    EXPECT_GE(failed, 100) << config.attention;
    EXPECT_LT(count, 20000);
    train(config);
    for (const char* file : {"model.safetensors", "optimizer.safetensors"})
      EXPECT_TRUE(exists(fmt::format("run/checkpoints/step-00000002/{}", file))) << "a run after failures";
  }
}

// The error of a run knows its settings: what to lower depends on what takes the most.
TEST_F(OutOfMemoryTest, SaysWhatToLower) {
  const auto train_within = [&](const RunConfig& config, size_t bytes) {
    set_cpu_memory_limit(cpu_memory().held + bytes);
    with_memory_advice(config, [&] { train(config); });
  };
  RunConfig wide_batch = small_run();
  wide_batch.batch = 5000;
  expect_error(ErrorKind::memory,
               {"out of memory: ", " asked for activations and workspace", "the limit is 1.0 MiB",
                "lower --batch (5000", "--length (8)", "--layers (1)", "or say --recompute"},
               [&] { train_within(wide_batch, 1 << 20); });
  RunConfig wide_model = small_run();
  wide_model.dim = 512;
  wide_model.recompute = true;
  expect_error(ErrorKind::memory, {" asked for optimiser", "lower --dim (512), --ffn (8) or --layers (1)"},
               [&] { train_within(wide_model, 6 << 20); });
  wide_batch.recompute = true;
  wide_batch.task = "digits";
  wide_batch.length = 0;
  try {
    train_within(wide_batch, 1 << 20);
    ADD_FAILURE();
  } catch (const Error& error) {
    const std::string message = error.what();
    EXPECT_NE(message.find("--size"), std::string::npos) << message;
    EXPECT_EQ(message.find("--length"), std::string::npos) << message;
    EXPECT_EQ(message.find("--recompute"), std::string::npos) << message;
  }
  set_cpu_memory_limit(0);
}

}  // namespace
}  // namespace linea
