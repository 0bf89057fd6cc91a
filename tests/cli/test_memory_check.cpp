// Before it starts, a run that cannot fit into memory is refused, and one that fits is not.
#include "autograd/gradcheck.h"
#include "cli/terminal.h"
#include "tensor/caching_allocator.h"
#include "tests/cli/program.h"
#include "train/run/step_memory.h"
#include "train/run/trainer.h"

namespace linea {
namespace {

class MemoryCheck : public ProgramTest {
 protected:
  void TearDown() override {
    cpu_allocator().set_limit(0);
    set_threads(threads_);
    ProgramTest::TearDown();
  }
  static RunConfig run_of(const std::string& attention, int64_t layers) {
    RunConfig config;
    config.task = "copy";
    config.task_settings = {{"length", 64}};
    config.attention = attention;
    config.layers = layers;
    config.heads = 2;
    config.dim = 32;
    config.ffn = 64;
    config.batch = 96;
    config.steps = 2;
    config.threads = 1;
    return config;
  }
  static double peak_of(const RunConfig& config, const Task& task) {
    const size_t before = cpu_allocator().use().held;
    const auto model = make_model(model_config(config, task.shape()));
    Optimizer optimizer(optimizer_config(config), model->parameters());
    const size_t weights = cpu_allocator().use().held - before;
    return static_cast<double>(
        weights + measure_step(*model, optimizer, task, config, 0, config.batch, 1).peak);
  }

 private:
  int threads_ = context().threads;
};

TEST_F(MemoryCheck, RefusesAtOnce) {
  const std::string run = "train --task copy --length 16 --heads 2 --dim 64 --ffn 256 --out run ";
  for (const char* layers : {"1000000000", "20000000"})
    refused(5, run + "--layers " + layers,
            {"asked for optimizer", fmt::format("--layers ({})", layers)});
  refused(5, run + "--batch 1000000000", {"asked for activations", "lower --batch (1000000000"});
  EXPECT_FALSE(exists("run"));
}

TEST_F(MemoryCheck, KnowsWhatFits) {
  set_threads(1);
  for (const std::string attention : {"linear", "softmax", "performer", "vq"})
    for (const int64_t layers : {1, 2, 5}) {
      if (kSanitized && layers == 2) continue;
      SCOPED_TRACE(fmt::format("{} {}", attention, layers));
      const RunConfig config = run_of(attention, layers);
      const auto task = make_task(task_options(config, ""));
      const double peak = peak_of(config, *task);
      const auto check_within = [&](double share) {
        cpu_allocator().set_limit(cpu_allocator().use().held + static_cast<size_t>(share * peak));
        refuse_what_cannot_fit(config, *task, 1e9);  // on a slow machine, too
      };
      EXPECT_NO_THROW(check_within(1.02));
      expect_error(ErrorKind::memory, {"out of memory"}, [&] { check_within(0.5); });
      cpu_allocator().set_limit(0);
    }
}

// Its tokens are in host memory too: two of four bytes for each position, three where pairs are
// read.
TEST_F(MemoryCheck, CountsTheBatch) {
  set_threads(1);
  RunConfig config = run_of("linear", 1);
  for (const int64_t streams : {2, 3}) {
    if (streams == 3) {
      config.task = "retrieval";
      config.task_settings = {{"associations", 8}};
      config.heads = 1;
    }
    const auto task = make_task(task_options(config, ""));
    const auto model = make_model(model_config(config, task->shape()));
    Optimizer optimizer(optimizer_config(config), model->parameters());
    const size_t before = cpu_allocator().use().held;
    const size_t peak = measure_step(*model, optimizer, *task, config, 0, config.batch, 1).peak;
    EXPECT_EQ(peak, cpu_allocator().use().peak - before +
                        static_cast<size_t>(4 * streams * config.batch * task->length()));
  }
}

TEST_F(MemoryCheck, ChangesNoBit) {
  RunConfig config = run_of("vq", 3);
  config.dropout = 0.1;
  config.batch = 4;
  set_threads(1);
  const double peak = peak_of(config, *make_task(task_options(config, "")));
  testing::internal::CaptureStderr();
  for (const bool check : {false, true}) {
    cpu_allocator().set_limit(check ? cpu_allocator().use().held + static_cast<size_t>(1.5 * peak)
                                    : 0);
    TerminalProgress progress;
    const std::string run = check ? "checked" : "straight";
    EXPECT_EQ(Trainer(config, path(run), false, false, progress, "", check).run(), 0);
  }
  testing::internal::GetCapturedStderr();
  expect_same_checkpoint("straight", "checked", 2);
  EXPECT_EQ(repeatable_metrics("straight"), repeatable_metrics("checked"));
  EXPECT_EQ(metrics("straight").front()["peak_bytes"], metrics("checked").front()["peak_bytes"]);
}

// Where the check is in question, it can be left out.
TEST_F(MemoryCheck, CanBeLeftOut) {
  RunConfig config = run_of("linear", 1);
  config.batch = 100000;
  cpu_allocator().set_limit(cpu_allocator().use().held + (64 << 20));
  TerminalProgress progress;
  expect_error(ErrorKind::memory, {"asked for activations", "lower `batch`"},
               [&] { Trainer(config, path("run"), false, false, progress); });
  EXPECT_FALSE(exists("run"));
  testing::internal::CaptureStderr();
  Trainer(config, path("run"), false, false, progress, "", false);
  testing::internal::GetCapturedStderr();
  EXPECT_TRUE(exists("run"));
}

}  // namespace
}  // namespace linea
