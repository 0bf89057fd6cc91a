// The classifier: its convolution against plain loops and finite differences, and what it learns.
#include "judge/classifier.h"

#include <gtest/gtest.h>

#include "autograd/gradcheck.h"
#include "judge/image_judge.h"
#include "tensor/backend.h"
#include "tensor/context.h"
#include "tests/data/data_helpers.h"
#include "tests/sanitized.h"

namespace linea {
namespace {

// y[b,i,j,o] = bias[o] + sum over dy, dx, c of x[b, 2i+dy, 2j+dx, c] w[o, dy, dx, c]
TEST(Convolution, IsTheSumOverPatches) {
  for (const int64_t side : {3, 6, 7}) {
    const int64_t B = 2, C = 3, O = 4, s = (side - 1) / 2;
    const Tensor x = random_tensor({B, side, side, C}, 1), w = random_tensor({O, 9 * C}, 2),
                 bias = random_tensor({O}, 3);
    Linear kernel;
    kernel.weight = Var(w);
    kernel.bias = Var(bias);
    const Tensor y = convolve(Var(x), kernel).value();
    ASSERT_EQ(y.shape(), Shape({B, s, s, O}));
    const double *xs = x.data<double>(), *ws = w.data<double>(), *ys = y.data<double>();
    for (int64_t b = 0; b < B; ++b)
      for (int64_t i = 0; i < s; ++i)
        for (int64_t j = 0; j < s; ++j)
          for (int64_t o = 0; o < O; ++o) {
            double sum = bias.data<double>()[o];
            for (int64_t dy = 0; dy < 3; ++dy)
              for (int64_t dx = 0; dx < 3; ++dx)
                for (int64_t c = 0; c < C; ++c)
                  sum += xs[((b * side + 2 * i + dy) * side + 2 * j + dx) * C + c] *
                         ws[((o * 3 + dy) * 3 + dx) * C + c];
            EXPECT_NEAR(ys[((b * s + i) * s + j) * O + o], sum, 1e-12);
          }
  }
}

TEST(Convolution, HasTheGradientOfDifferences) {
  const GradcheckResult result = gradcheck(
      [](const std::vector<Var>& v) {
        Linear kernel;
        kernel.weight = v[1];
        kernel.bias = v[2];
        return convolve(v[0], kernel);
      },
      {random_tensor({2, 6, 6, 2}, 1), random_tensor({3, 18}, 2), random_tensor({3}, 3)});
  EXPECT_LT(result.error, 1e-7) << result.worst_input;
}

class JudgedImages : public DataTest {
 protected:
  struct Silent : ProgressReporter {
    bool due(bool) override { return false; }
    void show(const std::string&) override {}
    void note(const std::string& line) override { notes += line; }
    std::string notes;
  };

  static RunConfig digits(int64_t examples) {
    RunConfig config;
    config.task = "digits";
    config.task_settings = {{"size", int64_t{12}}, {"levels", int64_t{16}}, {"examples", examples}};
    return config;
  }
  // Real images as samples.
  static ImageSet test_images(const RunConfig& config, int64_t count) {
    TaskOptions options = task_options(config, "");
    options.settings["class_token"] = true;
    const auto task = make_task(options);
    return images_of(task->shape(), task->eval_batch(Split::test, 0, count));
  }
};

// Test images are as good as real images are; random pixels are not.
TEST_F(JudgedImages, RealImagesAreGoodAndNoiseIsNot) {
  const RunConfig config = digits(20000);
  const ImageJudge judge(config);
  ImageSet samples = test_images(config, 100);
  Silent progress;
  const ImageReport real = judge.judge(samples, true, path("cache"), progress);
  ASSERT_TRUE(real.by_class.has_value());
  EXPECT_GT(real.by_class->accuracy, 0.99);
  EXPECT_GT(*real.by_class->right, 0.95);
  EXPECT_NEAR(real.by_class->sure.samples, real.by_class->sure.real, 0.05);
  EXPECT_NEAR(real.by_class->effective.samples, 10, 0.3);
  EXPECT_NEAR(real.by_class->effective.real, 10, 0.3);
  EXPECT_GT(real.of_samples[0].distance, 0);

  const auto cached = std::filesystem::directory_iterator(path("cache"))->path();
  const auto written = std::filesystem::last_write_time(cached);
  for (uint8_t& pixel : samples.pixels) pixel = static_cast<uint8_t>(pixel * 97 + 31);
  const int64_t bytes = samples.image_bytes();
  std::copy_n(judge.training_images().pixels.begin() + 3 * bytes, bytes, samples.pixels.begin());
  const ImageReport noise = judge.judge(samples, false, path("cache"), progress);
  EXPECT_EQ(std::filesystem::last_write_time(cached), written) << "it is trained once";
  EXPECT_EQ(noise.by_class->hash, real.by_class->hash);
  EXPECT_FALSE(noise.by_class->right.has_value());
  EXPECT_GT(noise.frechet.samples, 10 * real.frechet.samples);
  EXPECT_GT(noise.frechet.real, real.frechet.real) << "training images in any shares of classes";
  EXPECT_EQ(noise.of_samples[0].index, 3);
  EXPECT_EQ(noise.of_samples[0].distance, 0);
  EXPECT_EQ(progress.notes, "");
}

// The saved file depends on the data and its settings. A damaged one is replaced, at another
// number of threads by the same weights.
TEST_F(JudgedImages, AClassifierIsKeptForItsData) {
  if (kSanitized) GTEST_SKIP() << "trains more than once; the other builds run it";
  RunConfig config = digits(300);
  Silent progress;
  const int before = context().threads;
  const auto hash_of = [&](const RunConfig& run, int threads) {
    set_threads(threads);
    const ImageReport report =
        ImageJudge(run).judge(test_images(run, 2), false, path("cache"), progress);
    set_threads(before);
    return report.by_class->hash;
  };
  const auto files = [&] {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(path("cache")))
      names.push_back(entry.path());
    return names;
  };
  const std::string hash = hash_of(config, 2);
  ASSERT_EQ(files().size(), 1u);
  std::ofstream(files()[0]) << "damaged";
  // The base build computes products by BLAS, whose sums depend on the threads.
  EXPECT_EQ(hash_of(config, std::string(cpu_isa()) == "128-bit" ? 2 : 1), hash);
  config.task_settings["levels"] = int64_t{8};
  EXPECT_NE(hash_of(config, 2), hash);
  EXPECT_EQ(files().size(), 2u);
  EXPECT_EQ(progress.notes, "");
}

TEST(Nearness, CountsSamplesNearerThanEveryTestImage) {
  ImageReport report;
  report.of_samples = {{0, 5}, {1, 1}, {2, 2}, {3, 0.5}};
  report.of_tests = {{0, 3}, {1, 2}, {2, 7}};
  const Nearness nearness = nearness_of(report);
  EXPECT_EQ(nearness.copies, 2);
  EXPECT_EQ(nearness.min.samples, 0.5);
  EXPECT_EQ(nearness.min.real, 2);
  EXPECT_EQ(nearness.median.samples, 2);
  EXPECT_EQ(nearness.median.real, 3);
}

TEST(CellMeans, AreMeansOfSquares) {
  ImageSet set{16, 1, std::vector<uint8_t>(256), {0}};
  set.pixels[0] = 255, set.pixels[17] = 255;  // of the first 2 x 2 pixels
  set.pixels[255] = 51;
  const std::vector<float> means = cell_means(set);
  ASSERT_EQ(means.size(), 64u);
  EXPECT_FLOAT_EQ(means[0], 0.5f);
  EXPECT_FLOAT_EQ(means[63], 0.05f);
  EXPECT_EQ(std::count(means.begin(), means.end(), 0.0f), 62);
  const ImageSet tiny{2, 3, {0, 0, 255, 255, 255, 255, 0, 0, 0, 51, 0, 0}, {0}};
  EXPECT_EQ(cell_means(tiny), (std::vector<float>{1.0f / 3, 1, 0, 0.2f / 3}));
}

}  // namespace
}  // namespace linea
