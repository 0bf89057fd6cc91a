#include "tests/cuda/parity.h"

namespace linea::cuda_tests {
namespace {

// Tiles that start within the heads, more and fewer pairs than heads, one row, and none.
const HeadShape kShapes[] = {{1, 1, 1, 1, 0, 1},    {5, 37, 19, 7, 4, 3},  {2, 130, 70, 33, 2, 3},
                             {7, 3, 200, 16, 1, 2}, {1, 700, 5, 40, 0, 2}, {2, 0, 6, 5, 0, 2}};

Shape num_rows(const HeadShape& s, int64_t width) { return {s.batch_heads, s.rows, width}; }
Shape codes_of(const HeadShape& s) { return {s.heads, s.features, s.key_size}; }

template <typename T>
Tensor temperature() {
  return Tensor::full({1}, dtype_of(T{}), 0.75);
}

TEST(CudaCodebook, LogsOfMixtures) {
  for (const HeadShape& shape : kShapes)
    expect_real_parity([&](auto t) {
      using T = decltype(t);
      const Tensor codes = input<T>(codes_of(shape), 1, 0.5),
                   u = input<T>(num_rows(shape, shape.features), 2);
      const Tensor by = temperature<T>();
      table<T>().mixture_logs(context(), shape, codes.template data<T>(), by.template data<T>(),
                              u.template data<T>());
      return std::vector<Tensor>{u};
    });
}

// Logs of -infinity have no gradient and add nothing to that of the temperature. bfloat16: dt is a
// sum of both signs.
TEST(CudaCodebook, BackwardOfLogsOfMixtures) {
  for (const HeadShape& shape : kShapes)
    expect_real_parity([&](auto t) {
      using T = decltype(t);
      const Shape wide = num_rows(shape, shape.features);
      std::vector<T> values;
      for (const double x : numbers(input<float>(wide, 1)))
        values.push_back(T(static_cast<float>(BFloat16(x - 4))));
      const Tensor by = temperature<T>(), dt = input<T>({shape.batch_heads}, 4);
      std::vector<T> grads = input<T>(wide, 2).template to_vector<T>();
      if (shape.features > 1)
        for (size_t i = 0; i < values.size(); i += 97) {
          values[i] = T(-INFINITY);
          grads[i] = T(0.0f);
        }
      const Tensor logs = Tensor::from(values, wide), dlogs = Tensor::from(grads, wide);
      table<T>().mixture_logs_backward(context(), shape, by.template data<T>(),
                                       logs.template data<T>(), dlogs.template data<T>(),
                                       dt.template data<T>());
      return std::vector<Tensor>{dlogs, dt};
    });
}

TEST(CudaCodebook, GradientsOfPairsAreAddedToHeads) {
  for (const HeadShape& shape : kShapes)
    for (const bool with_rows : {false, true})
      expect_real_parity([&](auto t) {
        using T = decltype(t);
        const Tensor part = input<T>({shape.batch_heads, shape.features, shape.key_size}, 1);
        const Tensor du = input<T>(num_rows(shape, shape.features), 2),
                     codes = input<T>(codes_of(shape), 3);
        const Tensor dcodes = input<T>(codes_of(shape), 4);
        table<T>().add_to_heads(context(), shape, part.template data<T>(),
                                with_rows ? du.template data<T>() : nullptr,
                                codes.template data<T>(), dcodes.template data<T>());
        return std::vector<Tensor>{dcodes};
      });
}

// Small whole numbers: distances are exact in every type, and many are equal.
template <typename T>
Tensor whole_numbers(const Shape& shape, uint32_t lane) {
  std::vector<T> values;
  for (const double x : numbers(input<float>(shape, lane))) values.push_back(T(std::round(x)));
  return Tensor::from(values, shape);
}

TEST(CudaCodebook, TheFirstOfTheNearestCodes) {
  for (const HeadShape& shape : kShapes)
    expect_real_parity(
        [&](auto t) {
          using T = decltype(t);
          const Tensor x = whole_numbers<T>(num_rows(shape, shape.key_size), 1);
          const Tensor codes = whole_numbers<T>(codes_of(shape), 2);
          const Tensor code = unset<int32_t>({shape.batch_heads, shape.rows});
          table<T>().nearest_code(context(), shape, x.template data<T>(), codes.template data<T>(),
                                  code.template data<int32_t>());
          return std::vector<Tensor>{code};
        },
        {0, 0, 0});
}

TEST(CudaCodebook, MorePairsThanOneGridHolds) {
  expect_close<float, float>(
      [](auto) {
        const HeadShape shape{(1 << 10) + 3, 1, 3, 2, 0, 1};
        std::vector<float> values;
        for (int64_t i = 0; i < 2 * shape.batch_heads; ++i)
          values.push_back(static_cast<float>(i % 7 - 3));
        const Tensor x = Tensor::from(values, {shape.batch_heads, 2});
        const Tensor codes = Tensor::from(std::vector<float>{3, 0, -2, 1, 0, -1}, {1, 3, 2});
        const Tensor code = unset<int32_t>({shape.batch_heads});
        table<float>().nearest_code(context(), shape, x.data<float>(), codes.data<float>(),
                                    code.data<int32_t>());
        return std::vector<Tensor>{code};
      },
      0);
}

// All codes alike: the first; no distance a number: the first.
TEST(CudaCodebook, EquallyNearCodes) {
  for (const double value : {0.5, HUGE_VAL, std::nan("")})
    expect_real_parity(
        [value](auto t) {
          using T = decltype(t);
          const HeadShape shape{1, 70, 130, 5, 0, 1};
          const Tensor x = input<T>({1, 70, 5}, 1),
                       codes = Tensor::full({1, 130, 5}, dtype_of(T{}), value);
          const Tensor code = unset<int32_t>({1, 70});
          table<T>().nearest_code(context(), shape, x.template data<T>(), codes.template data<T>(),
                                  code.template data<int32_t>());
          return std::vector<Tensor>{code};
        },
        {0, 0, 0});
}

Tensor codes_below(const HeadShape& shape) {
  const RandomStream numbers{7, Purpose::test, 99, 0};
  std::vector<int32_t> codes;
  for (int64_t i = 0; i < shape.batch_heads * shape.rows; ++i)
    codes.push_back(
        static_cast<int32_t>(shape.head(i / shape.rows) * shape.features +
                             random_below(numbers, i, static_cast<uint32_t>(shape.features))));
  return Tensor::from(codes, {shape.batch_heads, shape.rows});
}

TEST(CudaCodebook, CodesAreGatheredSummedAndSpread) {
  for (const HeadShape& shape : kShapes)
    expect_real_parity([&](auto t) {
      using T = decltype(t);
      const int64_t H = shape.heads, F = shape.features, D = shape.key_size;
      const Tensor code = codes_below(shape), x = input<T>(num_rows(shape, D), 1);
      const Tensor codes = input<T>(codes_of(shape), 2), logs = unset<T>(num_rows(shape, F));
      table<T>().one_hot_logs(context(), code.data<int32_t>(), logs.template data<T>(),
                              shape.batch_heads * shape.rows, F);
      return std::vector<Tensor>{ops::embedding(codes.reshape({H * F, D}), code),
                                 ops::embedding_backward(code, x, H * F), logs};
    });
}

TEST(CudaCodebook, SumsByCodeAreTheSameBitsEachTime) {
  const On device(kCuda);
  const HeadShape shape{6, 900, 3, 5, 1, 2};
  const Tensor code = codes_below(shape), x = input<float>(num_rows(shape, 5), 1);
  const auto sum = [&] { return numbers(ops::embedding_backward(code, x, 6)); };
  EXPECT_EQ(sum(), sum());
}

}  // namespace
}  // namespace linea::cuda_tests
