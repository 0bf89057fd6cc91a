// Memory that runs out while a run is made, trains, saves or looks at its validation split, or
// while a model draws or is evaluated: always the one error, at any number of threads.
#include "autograd/gradcheck.h"
#include "cli/terminal.h"
#include "tensor/caching_allocator.h"
#include "tests/cli/program.h"
#include "tests/data/readers/png_bytes.h"
#include "train/run/trainer.h"
#include "train/samples.h"

namespace linea {
namespace {

class OutOfMemoryTest : public ProgramTest {
 protected:
  static RunConfig small_run() {
    RunConfig config;
    config.task = "copy";
    config.task_settings = {{"length", 8}};
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
      TerminalProgress progress;
      Trainer(config, path("run"), false, false, progress).run();
    } catch (...) {
      testing::internal::GetCapturedStderr();
      throw;
    }
    testing::internal::GetCapturedStderr();
  }

  // Calls `work` with its first allocation failing, then the second, ... until it passes; from
  // `each` on in strides. The number of failures.
  template <typename Work>
  static int64_t fail_everywhere(int64_t each, int64_t stride, const Work& work) {
    const size_t before = cpu_allocator().use().held;
    int64_t failed = 0;
    for (int64_t count = 1; count < 20000; count += count < each ? 1 : stride) {
      cpu_allocator().fail_at(count);
      bool passed = false;
      try {
        work();
        passed = true;
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::memory) << count << ": " << error.what();
        ++failed;
      }
      cpu_allocator().fail_at(0);
      EXPECT_EQ(cpu_allocator().use().held, before)
          << "a leak where allocation " << count << " fails";
      if (passed || testing::Test::HasFailure()) return failed;
    }
    ADD_FAILURE() << "never passes";
    return failed;
  }

  // Images in color of 2 x 2: 12 tokens of 256 levels.
  RunConfig small_images() const {
    fs::create_directories(path("images"));
    for (char gray = 0; gray < 20; ++gray)
      put(fmt::format("images/{:02}.png", int{gray}),
          png_bytes(2, 2, 8, 2, {std::string(6, gray), std::string(6, 'x')}));
    RunConfig config = small_run();
    config.task = "images";
    config.task_settings = {{"data", path("images")}, {"size", 2}};
    config.output_head = "logistics";
    config.threads = 2;
    return config;
  }
};

// Restores what a run changed.
struct ThreadsBefore {
  int before = context().threads;
  ~ThreadsBefore() { set_threads(before); }
};

TEST_F(OutOfMemoryTest, EveryFailingAllocationIsAnError) {
  for (const bool recompute : {false, true}) {
    RunConfig config = small_run();
    config.attention = recompute ? "linear" : "softmax";
    config.recompute = recompute;
    train(config);
    const int64_t each = kSanitized ? 20 : 100, stride = kSanitized ? 307 : 127;
    EXPECT_GE(fail_everywhere(each, stride, [&] { train(config); }), each / 2) << config.attention;
    train(config);
    for (const char* file : {"model.safetensors", "optimizer.safetensors"})
      EXPECT_TRUE(exists(fmt::format("run/checkpoints/step-00000002/{}", file)))
          << "a run after failures";
  }
}

// In parallel regions, too: their errors reach the caller.
TEST_F(OutOfMemoryTest, EveryFailingAllocationIsAnErrorWithThreads) {
  const ThreadsBefore threads;
  const RunConfig config = small_images();
  train(config);
  EXPECT_GE(fail_everywhere(1, 5, [&] { train(config); }), 30);
}

TEST_F(OutOfMemoryTest, EveryFailingAllocationOfSamplingIsAnError) {
  const ThreadsBefore threads;
  train(small_images());
  set_threads(2);
  const SavedModel saved = load_model(path("run"));
  const auto draw = [&] {
    sample_images(*saved.model, saved.shape, {1.0, false, 1}, {16, -1}, path("grid.png"), 0);
  };
  draw();
  EXPECT_GE(fail_everywhere(1, 3, draw), 30);
  cpu_allocator().set_limit(cpu_allocator().use().held + (1 << 10));
  expect_error(ErrorKind::memory,
               {"out of memory: ", "parameters 0.", "lower `count`", "16 images"}, draw);
  cpu_allocator().set_limit(0);
}

// There is no model yet whose parts could be named, but what takes the memory is one.
TEST_F(OutOfMemoryTest, EveryFailingAllocationOfALoadIsAnError) {
  train(small_run());
  const auto load = [&] { load_model(path("run")); };
  EXPECT_GE(fail_everywhere(1, 1, load), 10);
  cpu_allocator().set_limit(cpu_allocator().use().held + (1 << 10));
  expect_error(ErrorKind::memory,
               {"out of memory: ", "use a machine (or a container) with more memory"}, load);
  cpu_allocator().set_limit(0);
}

TEST_F(OutOfMemoryTest, EveryFailingAllocationOfTheDefinitionIsAnError) {
  const ThreadsBefore threads;
  set_threads(2);
  for (const char* attention : {"linear", "performer"}) {
    AttentionOptions options;
    options.name = attention;
    options.heads = 4;
    options.key_size = options.value_size = 8;
    if (options.name == "performer") options.settings["features"] = 8;
    const auto definition = make_attention(options);
    const auto normal = [](uint32_t stream_id) {
      return random_tensor({1, 4, 16, 8}, stream_id, 1.0, 1e-3, DType::f32);
    };
    const Tensor q = normal(1), k = normal(2), v = normal(3), dy = normal(4);
    const auto work = [&] {
      backward(definition->quadratic({Var(q, true), Var(k, true), Var(v, true), Var()}, {}), dy);
    };
    work();
    EXPECT_GE(fail_everywhere(100, 1, work), 5) << attention;
  }
}

// BLAS asks for its buffers for ever where it gets none: whatever the limit, the program does its
// work or says why not.
TEST_F(OutOfMemoryTest, AProcessLimitDoesNotHang) {
  if (kSanitized) GTEST_SKIP() << "the sanitizers map terabytes; the release build's tests do it";
  train(small_run());
  for (const int mebibytes : {100, 300, 400, 450, 500, 600, 800, 2000}) {
    const std::string limited = fmt::format(
        "cd '{}' && ulimit -v {} && OMP_NUM_THREADS=2 timeout 60 '{}' eval run > out 2> err",
        path(""), 1024 * mebibytes, LINEA_PROGRAM);
    const int status = WEXITSTATUS(std::system(limited.c_str()));
    EXPECT_TRUE(status == 0 || status == 5) << mebibytes << " MiB: " << status;
    EXPECT_EQ(status == 5, bytes("err").find("out of memory") != std::string::npos)
        << mebibytes << ": " << bytes("err");
    if (mebibytes == 100 || mebibytes == 2000) {
      EXPECT_EQ(status, mebibytes == 100 ? 5 : 0) << bytes("err");
    }
  }
}

// The error of a run knows its settings: what to lower depends on what takes the most.
TEST_F(OutOfMemoryTest, NamesTheSettingToLower) {
  const auto train_within = [&](const RunConfig& config, size_t bytes) {
    cpu_allocator().set_limit(cpu_allocator().use().held + bytes);
    with_out_of_memory_hint(config, [&] { train(config); });
  };
  RunConfig wide_batch = small_run();
  wide_batch.batch = 5000;
  expect_error(ErrorKind::memory,
               {"out of memory: ", " asked for activations and workspace", "the limit is 1.0 MiB",
                "lower `batch` (5000", "`length` (8)", "`layers` (1)", "or add `recompute`"},
               [&] { train_within(wide_batch, 1 << 20); });
  RunConfig wide_model = small_run();
  wide_model.dim = 512;
  wide_model.recompute = true;
  expect_error(ErrorKind::memory,
               {" asked for optimizer", "lower `dim` (512), `ffn` (8) or `layers` (1)"},
               [&] { train_within(wide_model, 6 << 20); });
  wide_batch.recompute = true;
  wide_batch.task = "digits";
  wide_batch.task_settings = {};
  try {
    train_within(wide_batch, 1 << 20);
    ADD_FAILURE();
  } catch (const Error& error) {
    const std::string message = error.what();
    EXPECT_NE(message.find("`size`"), std::string::npos) << message;
    EXPECT_EQ(message.find("`length`"), std::string::npos) << message;
    EXPECT_EQ(message.find("recompute`"), std::string::npos) << message;
  }
  cpu_allocator().set_limit(0);
}

}  // namespace
}  // namespace linea
