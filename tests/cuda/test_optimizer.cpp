#include "tests/cuda/parity.h"

namespace linea::cuda_tests {
namespace {

// Parameters of sizes that leave blocks empty, full and cut short; more of them than a launch
// takes.
const std::vector<int64_t> kTensorSizes[] = {
    {0}, {1}, {4096}, {4097}, {70001}, {5, 0, 4096, 1, 8193, 0}, std::vector<int64_t>(101, 7)};

// Gradients, parameters, means and squares of `sizes`, one after another in a tensor each.
template <typename T>
struct Held {
  using A = Accumulator<T>;
  explicit Held(const std::vector<int64_t>& sizes) {
    int64_t all = 0;
    for (const int64_t n : sizes) all += n;
    gradient = input<T>({all}, 1);
    parameter = input<T>({all}, 2);
    mean = input<A>({all}, 3);
    square = input<A>({all}, 4);
    table<A>().multiply(context(), square.template data<A>(), square.template data<A>(),
                        square.template data<A>(), all);
    int64_t first = 0;
    for (const int64_t n : sizes) {
      const double decay = list.size() % 2 == 0 ? 0.1 : 0.0;
      list.push_back({gradient.template data<T>() + first, parameter.template data<T>() + first,
                      mean.template data<A>() + first, square.template data<A>() + first, n,
                      decay});
      first += n;
    }
  }
  Tensor gradient, parameter, mean, square;
  std::vector<TrainedParameter<T>> list;
};

TEST(CudaOptimizer, SquaresAreAddedToTheTotal) {
  for (const std::vector<int64_t>& sizes : kTensorSizes)
    expect_real_parity(
        [&](auto t) {
          using T = decltype(t);
          const Held<T> held(sizes);
          const Tensor total = Tensor::from(std::vector<double>{3.5}, {1});
          for (int i = 0; i < 2; ++i)
            table<T>().sum_squares(context(), held.list.data(), held.list.size(),
                                   total.template data<double>());
          return std::vector<Tensor>{total};
        },
        {1e-12, 1e-12, 1e-12});
}

// More blocks than the second sum has threads.
TEST(CudaOptimizer, SquaresAreSummedToTheSameBitsEachTime) {
  const auto sum = [](auto) {
    const Held<float> held({1500000});
    const Tensor total = Tensor::zeros({1}, DType::f64);
    table<float>().sum_squares(context(), held.list.data(), 1, total.data<double>());
    return std::vector<Tensor>{total};
  };
  expect_close<float, float>(sum, 1e-12);
  const On device(kCuda);
  EXPECT_EQ(sum(0.0f)[0].item(), sum(0.0f)[0].item());
}

// The inputs of the clip kernel and its result. A loss below 0 is absent.
struct Case {
  double total, clip, norm_limit, loss = -1, loss_limit = 0;
};
const Case kCases[] = {
    {25.0, 1.0, 0.0},     {25.0, 10.0, 0.0},    {25.0, 0.0, 0.0},     {0.0, 1.0, 0.0},
    {25.0, 1.0, 4.9},     {25.0, 1.0, 5.0},     {INFINITY, 1.0, 0.0}, {NAN, 1.0, 0.0},
    {-1.0, 1.0, 0.0},     {INFINITY, 1.0, 1e9}, {25, 1, 0, 3.5},      {25, 1, 0, 3.5, 3.4},
    {25, 1, 0, 3.5, 3.5}, {25, 1, 0, INFINITY}, {25, 1, 0, NAN},      {25, 1, 4.9, 3.5}};

TEST(CudaOptimizer, ClipScaleFollowsTheSameRules) {
  for (const Case& c : kCases)
    expect_real_parity(
        [&](auto t) {
          using T = decltype(t);
          using A = Accumulator<T>;
          *context().step = {};
          context().step->norm_limit = c.norm_limit;
          context().step->loss_limit = c.loss_limit;
          context().step->learning_rate = 0.25;
          send_step(context());
          const Tensor total = Tensor::from(std::vector<double>{c.total}, {1});
          const Tensor loss = Tensor::from(std::vector<A>{static_cast<A>(c.loss)}, {1});
          table<T>().clip_scale(context(), total.data<double>(),
                                c.loss < 0 ? nullptr : loss.template data<A>(), c.clip);
          fetch_step(context());
          const StepParams& step = *context().step;
          return std::vector<Tensor>{
              Tensor::from(std::vector<double>{step.clip_scale, step.gradient_norm,
                                               step.learning_rate, step.loss},
                           {4})};
        },
        {1e-15, 1e-15, 1e-15});
  *context().step = {};
}

TEST(CudaOptimizer, AdamVariants) {
  for (const double rectification : {1.0, 0.3, -1.0})
    for (const double clip_scale : {1.0, 0.25, std::nan("")})
      for (const std::vector<int64_t>& sizes : {kTensorSizes[3], kTensorSizes[5], kTensorSizes[6]})
        expect_real_parity([&](auto t) {
          using T = decltype(t);
          StepParams& step = *context().step;
          step = {};
          step.learning_rate = 0.01;
          step.correction1 = 1.9;
          step.correction2 = 40.0;
          step.rectification = rectification;
          step.clip_scale = clip_scale;
          send_step(context());
          const Held<T> held(sizes);
          table<T>().adam(context(), {0.9, 0.999, 1e-8}, held.list.data(), held.list.size());
          return std::vector<Tensor>{held.parameter, held.mean, held.square};
        });
  *context().step = {};
}

}  // namespace
}  // namespace linea::cuda_tests
