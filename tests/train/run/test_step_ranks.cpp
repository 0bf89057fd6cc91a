// A training step whose rows several ranks share is that of one process: the loss and the gradients
// up to rounding, the random numbers to the bit; all ranks end with the same weights.
#include "nn/transformer.h"
#include "train/run/rank_checks.h"
#include "train/run/training_step.h"

#include <cmath>
#include <cstring>

#include "autograd/ops.h"
#include "tests/expect_error.h"
#include "tests/nn/attention_options.h"
#include "tests/parallel/thread_ranks.h"

namespace linea {
namespace {

RunConfig shared(const std::string& attention) {
  RunConfig config;
  config.task = "digits";
  config.task_settings = {{"size", 12}, {"levels", 8}, {"examples", 40}};
  config.attention = attention;
  config.attention_settings = declared_only(attention, {{"codes", 4}, {"clusters", 2}});
  config.layers = 2;
  config.heads = 2;
  config.dim = config.ffn = 8;
  config.batch = 5;
  config.accumulate = 2;
  config.dropout = 0.2;
  return config;
}

const Task& shared_digits() {
  static const std::unique_ptr<Task> task = make_task(task_options(shared("linear"), ""));
  return *task;
}

const Task& task_of(const RunConfig& config) {
  if (!config.task_settings.has("class_token")) return shared_digits();
  static const std::unique_ptr<Task> task = make_task(task_options(config, ""));
  return *task;
}

struct SharedRun {
  SharedRun(const RunConfig& settings, Ranks& ranks)
      : config(settings),
        model(model_config(config, task_of(config).shape())),
        optimizer(optimizer_config(config), model.parameters()),
        step(model, optimizer, task_of(config), config, true, &ranks) {}
  StepResult run(int64_t number) {
    model.before_step(number, config.steps);
    return step.run(number, 1e-3);
  }
  std::vector<double> numbers_of(const std::vector<NamedTensor>& tensors) const {
    std::vector<double> all;
    for (const NamedTensor& tensor : tensors)
      for (const double x : tensor.tensor.to_doubles()) all.push_back(x);
    return all;
  }

  RunConfig config;
  Transformer model;
  Optimizer optimizer;
  TrainingStep step;
};

struct Trained {
  std::vector<StepResult> steps;
  std::vector<double> moments, buffers;  // after the first step
};

Trained train_on(int W, const RunConfig& config, int64_t steps) {
  Trained trained;
  const auto errors = on_ranks(W, [&](Ranks& ranks) {
    SharedRun run(config, ranks);
    SameWeights same(ranks, run.model, run.optimizer);
    for (int64_t i = 0; i < steps; ++i) {
      const StepResult result = run.run(i);
      same.check(i + 1);
      if (!ranks.is_main()) continue;
      trained.steps.push_back(result);
      if (i > 0) continue;
      trained.moments = run.numbers_of(run.optimizer.moments());
      trained.buffers = run.numbers_of(run.model.buffers());
    }
  });
  EXPECT_EQ(errors, std::vector<std::string>(static_cast<size_t>(W)));
  return trained;
}

// |x - y| / |y|
double relative_distance(const std::vector<double>& x, const std::vector<double>& y) {
  double difference = 0, all = 0;
  for (size_t i = 0; i < y.size(); ++i) {
    difference += (x.at(i) - y[i]) * (x.at(i) - y[i]);
    all += y[i] * y[i];
  }
  return all == 0 ? std::sqrt(difference) : std::sqrt(difference / all);
}

void expect_alike(const RunConfig& config, const std::vector<int>& sizes = {3}) {
  constexpr int64_t kSteps = 3;
  const Trained alone = train_on(1, config, kSteps);
  for (const int W : sizes) {
    const Trained found = train_on(W, config, kSteps);
    const std::string what = fmt::format("{} on {} ranks", config.attention, W);
    ASSERT_EQ(found.steps.size(), alone.steps.size()) << what;
    EXPECT_NEAR(found.steps[0].loss / alone.steps[0].loss, 1, 1e-6) << what;
    EXPECT_NEAR(found.steps[0].gradient_norm / alone.steps[0].gradient_norm, 1, 1e-5) << what;
    EXPECT_LT(relative_distance(found.moments, alone.moments), 1e-5) << what;
    EXPECT_LT(relative_distance(found.buffers, alone.buffers), 1e-5) << what;
    EXPECT_NEAR(found.steps.back().loss / alone.steps.back().loss, 1, 1e-4) << what;
    const Trained again = train_on(W, config, kSteps);
    for (size_t i = 0; i < again.steps.size(); ++i)
      EXPECT_EQ(again.steps[i].loss, found.steps[i].loss) << what;
    EXPECT_EQ(again.moments, found.moments) << what;
  }
}

// Parts of sequences of 144 positions: 48 a rank in mean.
void expect_alike_in_parts(const RunConfig& whole) {
  const Trained alone = train_on(1, whole, 1);
  for (const auto& [W, parts] : {std::pair(2, 2), std::pair(4, 2)}) {
    RunConfig config = whole;
    config.sequence_ranks = parts;
    const Trained found = train_on(W, config, 1);
    const std::string what = fmt::format("{} on {} ranks", config.attention, W);
    ASSERT_EQ(found.steps.size(), 1u) << what;
    EXPECT_NEAR(found.steps[0].loss / alone.steps[0].loss, 1, 1e-6) << what;
    EXPECT_NEAR(found.steps[0].gradient_norm / alone.steps[0].gradient_norm, 1, 1e-5) << what;
    EXPECT_LT(relative_distance(found.moments, alone.moments), 1e-5) << what;
    EXPECT_LT(relative_distance(found.buffers, alone.buffers), 1e-5) << what;
  }
}

// Attentions with all kinds of states; positions, classes and convolutions by their place in the image;
// dropout by its token.
TEST(StepOfRanks, OfPartsOfSequencesIsThatOfOneProcess) {
  for (const std::string attention :
       {"linear", "performer", "soft-vq", "vq", "gdn", "kda", "retnet"})
    expect_alike_in_parts(shared(attention));
  RunConfig config = shared("linear");
  config.attention_settings = {{"rule", "gated"}};
  config.layer_convolution = "2d";
  config.class_embedding = "every";
  config.task_settings["class_token"] = true;
  config.positions = "learned+grid";
  config.attention_output = "gated";
  expect_alike_in_parts(config);
  config.recompute = true;
  expect_alike_in_parts(config);
  config.recompute = false;
  config.reversible = true;
  expect_alike_in_parts(config);
  config = shared("linear");
  config.attention = "gdn/linear";
  expect_alike_in_parts(config);
  config = shared("gdn");
  config.positions = "rotary";
  config.optimizer = "muon";
  config.layer_convolution = "1d";
  expect_alike_in_parts(config);
}

TEST(StepOfRanks, IsThatOfOneProcess) { expect_alike(shared("linear"), {2, 3, 4}); }

// Each matrix is orthogonalized by one rank: the moments and, by SameWeights, the weights of all.
TEST(StepOfRanks, SharesTheMatricesOfMuon) {
  RunConfig config = shared("linear");
  config.optimizer = "muon";
  expect_alike(config, {2, 4});
}

TEST(StepOfRanks, AddsWhatAttentionsLearnWithoutGradients) {
  for (const std::string attention : {"vq", "routing"}) expect_alike(shared(attention));
}

TEST(StepOfRanks, IsThatOfOneProcessInBlocksThatRunTwice) {
  RunConfig reversible = shared("linear"), recomputed = reversible;
  reversible.reversible = recomputed.recompute = true;
  expect_alike(reversible);
  expect_alike(recomputed);
}

// The second micro-batch begins in the middle of the step, for every thread that drops its rows.
TEST(StepOfRanks, DropsTheSameRowsOnAnyNumberOfThreads) {
  const int before = context().threads;
  std::vector<std::vector<double>> moments;
  for (const int threads : {1, 3}) {
    set_threads(threads);
    SharedRun run(shared("linear"), ranks());
    run.run(0);
    moments.push_back(run.numbers_of(run.optimizer.moments()));
  }
  set_threads(before);
  EXPECT_EQ(moments[1], moments[0]);
}

TEST(StepOfRanks, RefusesMoreRanksThanRows) {
  RunConfig config = shared("linear");
  config.batch = config.accumulate = 1;
  for (const std::string& error : on_ranks(2, [&](Ranks& ranks) { SharedRun run(config, ranks); }))
    EXPECT_NE(error.find("2 ranks share the 1 sequences of a step: raise `batch`"),
              std::string::npos)
        << error;
}

// A NaN of one rank is in every sum.
TEST(StepOfRanks, SkipsOnAllWhereOneIsNotFinite) {
  const auto errors = on_ranks(3, [&](Ranks& ranks) {
    SharedRun run(shared("linear"), ranks);
    SameWeights same(ranks, run.model, run.optimizer);
    const Tensor norm = run.model.parameters().back().var.value();
    const std::vector<float> before = norm.to_vector<float>();
    if (ranks.rank() == 1) norm.write(std::vector<float>(before.size(), NAN).data());
    require(!run.run(0).updated, "the update was made");
    require(run.optimizer.updates() == 0, "it was counted");
    norm.write(before.data());
    same.check(1);
    require(run.run(0).updated, "the next update was not made");
  });
  EXPECT_EQ(errors, std::vector<std::string>(3));
}

TEST(StepOfRanks, NamesTheRankAndTheTensorThatDiffer) {
  const auto errors = on_ranks(3, [&](Ranks& ranks) {
    SharedRun run(shared("linear"), ranks);
    SameWeights same(ranks, run.model, run.optimizer);
    same.check(5);
    if (ranks.rank() == 2) {
      const Tensor weight = run.model.parameters()[3].var.value();
      std::vector<float> values = weight.to_vector<float>();
      values.back() += 1e-6f;
      weight.write(values.data());
    }
    same.check(7);
  });
  SharedRun run(shared("linear"), ranks());
  for (const std::string& error : errors) {
    EXPECT_NE(error.find("rank 2 on "), std::string::npos) << error;
    EXPECT_NE(error.find("its weights differ from rank 0's since step 5, first in " +
                         run.model.parameters()[3].name),
              std::string::npos)
        << error;
  }
}

// Buckets are sent before the backward pass ends, and the sums are those of all at the end.
TEST(GradientSum, SendsCompleteGradientsDuringTheBackwardPass) {
  for (const bool overlaps : {true, false})
    EXPECT_EQ(
        on_ranks(3,
                 [&](Ranks& ranks) {
                   SharedRun run(shared("linear"), ranks);
                   GradientSum sum(ranks, run.model.parameters(), 2, 1);
                   const Batch batch =
                       shared_digits().train_rows(1, static_cast<uint64_t>(ranks.rank()) * 2, 2);
                   const BatchTensors tensors = batch_tensors(shared_digits(), batch);
                   const auto loss_of = [&] {
                     return run.model.output_head().loss(
                         run.model.forward(tensors.model_inputs(), false), tensors.targets);
                   };
                   backward(loss_of());
                   std::vector<std::vector<double>> expected;
                   for (Parameter parameter : run.model.parameters()) {
                     expected.push_back(parameter.var.grad().to_doubles());
                     ranks.sum(expected.back(), "expected");
                     parameter.var.clear_grad();
                   }
                   const ListenToBackward listen(overlaps ? sum.listener() : nullptr);
                   const Var loss = loss_of();
                   backward(loss);
                   int sent = 0;
                   for (const Parameter& parameter : run.model.parameters())
                     sent += parameter.var.grad().defined() ? 0 : 1;
                   const auto all = static_cast<int>(expected.size());
                   require(overlaps ? sent > all / 2 && sent < all : sent == 0,
                           "{} of {} were sent before the end", sent, all);
                   sum.take(loss.value());
                   sum.exchange({1.0f, static_cast<float>(ranks.rank())});
                   require(sum.notes()[0] == 3 && sum.notes()[1] == 3, "the notes");
                   for (size_t i = 0; i < expected.size(); ++i) {
                     const auto found = run.model.parameters()[i].var.grad().to_doubles();
                     for (size_t j = 0; j < found.size(); ++j)
                       require(found[j] == static_cast<double>(static_cast<float>(expected[i][j])),
                               "{} is {}, not {}", run.model.parameters()[i].name, found[j],
                               expected[i][j]);
                   }
                 }),
        std::vector<std::string>(3));
}

TEST(GradientSum, RefusesAGradientThatComesAfterItWasSent) {
  for (const std::string& error : on_ranks(2, [&](Ranks& ranks) {
         SharedRun run(shared("linear"), ranks);
         GradientSum sum(ranks, run.model.parameters(), 2, 1);
         for (const Parameter& parameter : run.model.parameters())
           backward(parameter.var, Tensor::zeros(parameter.var.shape(), DType::f32));
         sum.passed(2);
         const Parameter& last = run.model.parameters().back();
         backward(last.var, Tensor::zeros(last.var.shape(), DType::f32));
         sum.take(Tensor::zeros({1}, DType::f32));
       }))
    EXPECT_NE(error.find("got a gradient after its gradients were sent"), std::string::npos)
        << error;
}

}  // namespace
}  // namespace linea
