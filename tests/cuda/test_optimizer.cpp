#include "tests/cuda/parity.h"

namespace linea::cuda_tests {
namespace {

TEST(CudaOptimizer, SquaresAreAddedToTheTotal) {
  for (const int64_t n : {0, 1, 4096, 4097, 70001})
    expect_parity([n](auto t) {
      using T = decltype(t);
      const Tensor x = input<T>({n}, 1), total = Tensor::from(std::vector<double>{3.5}, {1});
      table<T>().sum_squares(context(), x.template data<T>(), total.template data<double>(), n);
      table<T>().sum_squares(context(), x.template data<T>(), total.template data<double>(), n);
      return std::vector<Tensor>{total};
    }, {1e-12, 1e-12, 1e-12});
}

// More blocks than the second sum has threads.
TEST(CudaOptimizer, SquaresAreSummedToTheSameBitsEachTime) {
  const auto sum = [](auto) {
    const Tensor x = input<float>({1500000}, 1), total = Tensor::zeros({1}, DType::f64);
    table<float>().sum_squares(context(), x.data<float>(), total.data<double>(), x.numel());
    return std::vector<Tensor>{total};
  };
  expect_close<float, float>(sum, 1e-12);
  const On device(kCuda);
  EXPECT_EQ(sum(0.0f)[0].item(), sum(0.0f)[0].item());
}

// What a step is told, and what the clip kernel makes of it.
struct Case {
  double total, clip, norm_limit;
};
const Case kCases[] = {{25.0, 1.0, 0.0}, {25.0, 10.0, 0.0},     {25.0, 0.0, 0.0},     {0.0, 1.0, 0.0},
                       {25.0, 1.0, 4.9}, {25.0, 1.0, 5.0},      {INFINITY, 1.0, 0.0}, {NAN, 1.0, 0.0},
                       {-1.0, 1.0, 0.0}, {INFINITY, 1.0, 1e9}};

TEST(CudaOptimizer, ClipScaleFollowsTheSameRules) {
  for (const Case& c : kCases)
    expect_close<double, double>([&](auto) {
      *context().step = {};
      context().step->norm_limit = c.norm_limit;
      context().step->learning_rate = 0.25;
      send_step(context());
      const Tensor total = Tensor::from(std::vector<double>{c.total}, {1});
      table<double>().clip_scale(context(), total.data<double>(), c.clip);
      fetch_step(context());
      const StepParams& step = *context().step;
      return std::vector<Tensor>{
          Tensor::from(std::vector<double>{step.clip_scale, step.gradient_norm, step.learning_rate}, {3})};
    }, 1e-15);
  *context().step = {};
}

TEST(CudaOptimizer, AdamInEachOfItsForms) {
  for (const double rectification : {1.0, 0.3, -1.0})
    for (const double clip_scale : {1.0, 0.25, std::nan("")})
      expect_parity([&](auto t) {
        using T = decltype(t);
        using A = Accumulator<T>;
        StepParams& step = *context().step;
        step = {};
        step.learning_rate = 0.01;
        step.correction1 = 1.9;
        step.correction2 = 40.0;
        step.rectification = rectification;
        step.clip_scale = clip_scale;
        send_step(context());
        const int64_t n = 1237;
        const Tensor g = input<T>({n}, 1), p = input<T>({n}, 2), m = input<A>({n}, 3), s = input<A>({n}, 4);
        table<A>().multiply(context(), s.template data<A>(), s.template data<A>(), s.template data<A>(), n);
        const AdamConstants constants{0.9, 0.999, 1e-8, 0.1};
        table<T>().adam(context(), constants, g.template data<T>(), p.template data<T>(), m.template data<A>(),
                        s.template data<A>(), n);
        return std::vector<Tensor>{p, m, s};
      });
  *context().step = {};
}

}  // namespace
}  // namespace linea::cuda_tests
