// Bits do not depend on the number of threads, at sizes large enough that the work is shared; and
// the BLAS.
#include <gtest/gtest.h>

#include <omp.h>

#include <array>
#include <atomic>
#include <cstring>

#include "base/scoped.h"
#include "tensor/backend.h"
#include "tensor/caching_allocator.h"
#include "tensor/cpu/parallel.h"
#include "tensor/ops.h"
#include "tensor/schedule.h"
#include "tests/expect_error.h"
#include "tests/tensor/op_values.h"

namespace linea {
namespace {

Tensor random(const Shape& shape, uint32_t stream_id) {
  std::vector<float> values(static_cast<size_t>(shape.numel()));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(random_normal({1, Purpose::test, stream_id, 0}, i));
  return Tensor::from(values, shape);
}

// Runs `body`, which returns tensors, with 1, 2, 3 and 5 threads, and compares all bits.
template <typename Body>
void expect_same_bits(const char* what, const Body& body) {
  const int before = context().threads;
  set_threads(1);
  const std::vector<Tensor> expected = body();
  for (const int threads : {2, 3, 5}) {
    set_threads(threads);
    const std::vector<Tensor> found = body();
    for (size_t i = 0; i < expected.size(); ++i) {
      ASSERT_EQ(found[i].shape(), expected[i].shape());
      EXPECT_EQ(std::memcmp(found[i].address(), expected[i].address(), expected[i].bytes()), 0)
          << what << ", result " << i << ", " << threads << " threads";
    }
  }
  set_threads(before);
}

TEST(Threads, ElementwiseOps) {
  const Tensor x = random({120011}, 1), y = random({120011}, 2);
  expect_same_bits("arithmetic", [&] {
    return std::vector<Tensor>{ops::add(x, y), ops::multiply(x, y), ops::scale(x, 0.3)};
  });
  for (const Pointwise f : {Pointwise::relu, Pointwise::gelu, Pointwise::feature_elu,
                            Pointwise::feature_relu, Pointwise::sigmoid})
    expect_same_bits("pointwise", [&] {
      return std::vector<Tensor>{ops::pointwise(f, x), ops::pointwise_backward(f, x, y)};
    });
  expect_same_bits("dropout", [&] { return std::vector<Tensor>{ops::dropout(x, 0.3f, 5)}; });
  expect_same_bits("accumulate", [&] {
    const Tensor sum = x.clone();
    ops::accumulate(y, sum);
    return std::vector<Tensor>{sum};
  });
}

TEST(Threads, Rows) {
  const Tensor x = random({613, 331}, 1), dy = random({613, 331}, 2), row = random({331}, 3);
  expect_same_bits("rows", [&] {
    return std::vector<Tensor>{ops::add_rows(x, row), ops::sum_rows(x, {331}), ops::softmax(x),
                               ops::softmax_backward(ops::softmax(x), dy), ops::normalize(x).first};
  });
  expect_same_bits("layer_norm", [&] {
    const ops::LayerNorm saved = ops::layer_norm(x, row, row);
    const ops::LayerNormGradient d = ops::layer_norm_backward(x, row, true, saved, dy);
    return std::vector<Tensor>{saved.y, saved.mean, saved.scale, d.dx, d.dweight, d.dbias};
  });
  expect_same_bits("permute", [&] {
    return std::vector<Tensor>{ops::permute(x, {{1, 613, 331, 1}, {0, 2, 1, 3}, 1}, {331, 613})};
  });
  const Tensor small = random({3001, 6}, 4), wide = random({3001, 36}, 5);
  expect_same_bits("feature maps", [&] {
    return std::vector<Tensor>{
        ops::quadratic_features(small), ops::quadratic_features_backward(small, wide),
        ops::dpfp_features(small, 3), ops::dpfp_features_backward(small, wide, 3)};
  });
}

TEST(Threads, Tokens) {
  std::vector<int32_t> ids(4001);
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>(i * i % 97);
  const Tensor tokens = Tensor::from(ids, {4001}), table = random({97, 65}, 1),
               dy = random({4001, 65}, 2);
  const Tensor logits = random({4001, 97}, 3), one = Tensor::full({1}, DType::f32, 1.0);
  expect_same_bits("embedding", [&] {
    return std::vector<Tensor>{ops::embedding(table, tokens),
                               ops::embedding_backward(tokens, dy, 97)};
  });
  expect_same_bits("cross_entropy", [&] {
    const ops::ScoredLoss saved = ops::cross_entropy(logits, tokens);
    return std::vector<Tensor>{saved.mean, saved.losses,
                               ops::cross_entropy_backward(logits, tokens, saved, one)};
  });
  expect_same_bits("sample", [&] {
    return std::vector<Tensor>{
        op_tests::sample_logits(logits, {0.8}, {1, Purpose::sample, 0, 2}), ops::argmax(logits),
        op_tests::sample_logits(logits, {0.8, 9, 0.9}, {1, Purpose::sample, 0, 2})};
  });
  const Tensor mixtures = random({301, 3 * kLogistics}, 4);
  expect_same_bits("logistics",
                   [&] { return std::vector<Tensor>{ops::logistics_scores(mixtures, 97)}; });
}

// BLAS computes products of few rows or little work, and those of double.
template <typename T>
void expect_same_products(int64_t rows, int64_t inner, int64_t cols) {
  const auto values = [](const Shape& shape, uint32_t stream_id) {
    const Tensor x = random(shape, stream_id);
    return Tensor::from(std::vector<T>(x.data<float>(), x.data<float>() + x.numel()), shape);
  };
  const Tensor a = values({rows, inner}, 1), b = values({cols, inner}, 2),
               c = values({rows, cols}, 3);
  expect_same_bits("product", [&] {
    return std::vector<Tensor>{ops::matmul(a, b, false, true), ops::matmul(a, c, true, false)};
  });
}

TEST(Threads, Products) {
  for (const auto& [rows, inner, cols] : std::vector<std::array<int64_t, 3>>{
           {1, 700, 2000}, {3, 700, 2001}, {700, 500, 3}, {300, 310, 270}}) {
    expect_same_products<float>(rows, inner, cols);
    expect_same_products<double>(rows, inner, cols);
  }
}

TEST(Threads, SumOfSquares) {
  const Tensor x = random({250007}, 1);
  expect_same_bits("sum_squares", [&] {
    const Tensor total = Tensor::zeros({1}, DType::f64);
    const TrainedParameter<float> parameters[] = {
        {x.data<float>(), nullptr, nullptr, nullptr, 50001, 0},
        {x.data<float>() + 50001, nullptr, nullptr, nullptr, 200006, 0}};
    kernels<float>({}).sum_squares(context(), parameters, 2, total.data<double>());
    return std::vector<Tensor>{total};
  });
}

TEST(Threads, Adam) {
  const Tensor gradient = random({250007}, 1);
  expect_same_bits("adam", [&] {
    const Tensor parameter = random({250007}, 2), mean = random({250007}, 3),
                 square = ops::multiply(mean, mean);
    std::vector<TrainedParameter<float>> parameters;
    for (const auto& [first, n] : {std::pair<int64_t, int64_t>{0, 50001}, {50001, 200006}})
      parameters.push_back({gradient.data<float>() + first, parameter.data<float>() + first,
                            mean.data<float>() + first, square.data<float>() + first, n,
                            first == 0 ? 0.1 : 0.0});
    kernels<float>({}).adam(context(), {0.9, 0.999, 1e-8}, parameters.data(), parameters.size());
    return std::vector<Tensor>{parameter, mean, square};
  });
}

TEST(Threads, BelowOneIsAnError) { EXPECT_THROW(set_threads(0), Error); }

TEST(Blas, IsOpenBlasForOpenMp) {
  EXPECT_NO_THROW(check_blas());
  EXPECT_STREQ(blas_info().flavor, "OpenMP");
  EXPECT_NE(std::string(blas_info().version).find("OpenBLAS"), std::string::npos);
}

// An exception in a parallel region reaches its caller; without that the program ends.
TEST(Threads, ExceptionsReachTheCaller) {
  const int before = context().threads;
  for (const int threads : {1, 3}) {
    set_threads(threads);
    const auto refuse = [](int64_t item) { require(item != 2, "item {} is refused", item); };
    expect_error(ErrorKind::usage, {"item 2 is refused"}, [&] {
      cpu::parallel_items(context(), 5, cpu::kGrain, [&](int64_t item, int) { refuse(item); });
    });
    expect_error(ErrorKind::usage, {"item 2 is refused"},
                 [&] { cpu::parallel_rows(context(), 5, cpu::kGrain, refuse); });
  }
  set_threads(before);
}

// Each item once: by a thread alone, which takes what absent ones leave, and by all, more than have shares.
TEST(Threads, SharesAreTakenOnce) {
  for (const int64_t count : {0, 1, 7, 100})
    for (const int threads : {1, 2, 3, 40}) {
      cpu::Shares shares(count, threads);
      for (int round = 0; round < 2; ++round) {
        std::vector<int> visits(static_cast<size_t>(count));
        int64_t first = -1;
        for (int thread = threads - 1; thread >= (round == 0 ? threads - 1 : 0); --thread)
          shares.each(thread, [&](int64_t item) {
            if (first < 0) first = item;
            ++visits[static_cast<size_t>(item)];
          });
        EXPECT_EQ(visits, std::vector<int>(static_cast<size_t>(count), 1)) << threads;
        if (threads == 2 && count > 1) {
          EXPECT_EQ(first, count / 2);
        }
        shares.restart();
      }
    }
}

// Each item once, with the caller's context but for its threads, which are its own again afterwards.
TEST(Threads, ItemsHaveTheContextOfTheirCaller) {
  const int before = context().threads;
  set_threads(3);
  const Scoped<FloatProducts> products(context().products, FloatProducts::rounded);
  std::vector<int> visits(100);
  std::atomic<int> others = 0;
  int failures = 0;
  on_threads(100, [&](int64_t item, int) {
    ++visits[static_cast<size_t>(item)];
    others += context().products != FloatProducts::rounded || context().threads != 1;
  });
  EXPECT_EQ(context().threads, 3);
  EXPECT_EQ(visits, std::vector<int>(100, 1));
  EXPECT_EQ(others, 0);
  expect_error(ErrorKind::usage, {"item 7"}, [] {
    on_threads(9, [](int64_t item, int) { require(item != 7, "item {}", item); });
  });
#pragma omp parallel num_threads(3) reduction(+ : failures)
  failures += omp_get_thread_num() > 0 && context().products != FloatProducts::exact;
  EXPECT_EQ(failures, 0);
  set_threads(before);
}

// Visits each piece once, by threads that it counts; while each thread computes whole pieces, kernels
// have one.
void expect_visits(const Schedule& schedule, bool whole) {
  std::vector<int> visits(static_cast<size_t>(schedule.pieces()));
  std::atomic<int> wrong = 0;
  const int all = context().threads;
  EXPECT_EQ(schedule.threads(), whole ? all : 1);
  schedule.each([&](int64_t piece, int thread) {
    ++visits[static_cast<size_t>(piece)];
    wrong += thread >= schedule.threads() || context().threads != (whole ? 1 : all);
  });
  EXPECT_EQ(visits, std::vector<int>(visits.size(), 1));
  EXPECT_EQ(wrong, 0);
}

TEST(Threads, SchedulesCutSumsAlikeAtAnyNumber) {
  const int before = context().threads;
  for (const int threads : {1, 2, 3, 5}) {
    set_threads(threads);
    const Schedule sums = Schedule::of_sums(8),
                   shared_sums = Schedule::in_cache(100, 10, true, true);
    EXPECT_EQ(sums.pieces(), 8);
    expect_visits(sums, threads < 5);
    EXPECT_EQ(shared_sums.size(), 40);
    EXPECT_EQ(shared_sums.pieces(), 3);
    expect_visits(shared_sums, false);
    // others as it suits the threads
    const Schedule whole = Schedule::in_cache(100, 25, true, false),
                   shared = Schedule::in_cache(100, 10, false, false);
    EXPECT_EQ(whole.size(), threads <= 3 ? 25 : 125);
    expect_visits(whole, threads <= 3);
    EXPECT_EQ(shared.size(), 10 * threads);
    expect_visits(shared, false);
  }
  set_threads(before);
}

// The threads of a product of heads take workspace in their region.
TEST(Threads, ProductsOfHeadsRunOutOfMemory) {
  if (std::string(cpu_isa()) == "128-bit")
    GTEST_SKIP() << "the base build computes products by BLAS";
  const int before = context().threads;
  set_threads(2);
  const Tensor x = random({8, 64, 32}, 1), w = random({4, 64, 32}, 2);
  const auto multiply = [&] { return ops::head_matmul(x, w, 0, true); };
  multiply();
  for (int64_t at = 1; at <= 4; ++at) {
    cpu_allocator().fail_at(at);
    expect_error(ErrorKind::memory, {"out of memory"}, multiply);
    cpu_allocator().fail_at(0);
  }
  set_threads(before);
}

}  // namespace
}  // namespace linea
