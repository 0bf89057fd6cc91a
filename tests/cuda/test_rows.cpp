#include "tests/cuda/parity.h"

namespace linea::cuda_tests {
namespace {

struct RowSize {
  int64_t rows, columns;
};
// Short rows and long ones, one alone, and none.
const RowSize kRowSizes[] = {{1, 1}, {37, 5}, {300, 33}, {9, 1025}, {1, 3000}, {0, 4}, {4, 0}};

TEST(CudaRows, RowsAddedAndSummed) {
  for (const auto [R, C] : kRowSizes)
    expect_parity([R = R, C = C](auto t) {
      using T = decltype(t);
      const Tensor x = input<T>({R, C}, 1), row = input<T>({C}, 2), y = unset<T>({R, C}),
                   sum = unset<T>({C});
      table<T>().add_rows(context(), x.data<T>(), row.data<T>(), y.data<T>(), R, C);
      table<T>().sum_rows(context(), x.data<T>(), sum.data<T>(), R, C);
      return std::vector<Tensor>{y, sum};
    });
}

// More rows than slices of the least length, and a number that no slice divides.
TEST(CudaRows, SumsOfManyRowsAreTheSameBitsEachTime) {
  const auto sum = [](auto t) {
    using T = decltype(t);
    const Tensor x = input<T>({9001, 35}, 1), y = unset<T>({35});
    table<T>().sum_rows(context(), x.template data<T>(), y.template data<T>(), 9001, 35);
    return std::vector<Tensor>{y};
  };
  expect_parity(sum);
  const On device(kCuda);
  EXPECT_EQ(numbers(sum(0.0f)[0]), numbers(sum(0.0f)[0]));
}

// Whether 16 bytes are loaded at once or one element; more columns than a tile has, and a few rows.
TEST(CudaRows, SumsOfUnalignedRowsHaveTheSameBits) {
  const On device(kCuda);
  const auto expect_same = [](auto t, int64_t R, int64_t C) {
    using T = decltype(t);
    std::vector<T> values = waves<T>(R * C);
    const Tensor x = Tensor::from(values, {R * C});
    values.insert(values.begin(), T(NAN));
    const Tensor unaligned = Tensor::from(values, {R * C + 1});
    const auto sums = [&](const T* from) {
      const Tensor y = unset<T>({C});
      table<T>().sum_rows(context(), from, y.template data<T>(), R, C);
      return numbers(y);
    };
    EXPECT_EQ(sums(x.template data<T>()), sums(unaligned.template data<T>() + 1)) << R << " " << C;
  };
  for (const auto [R, C] : {RowSize{1, 8}, RowSize{300, 264}, RowSize{5, 520}}) {
    expect_same(0.0f, R, C);
    expect_same(BFloat16(), R, C);
  }
}

TEST(CudaRows, MoreColumnsThanOneGridHolds) {
  expect_close<float, float>(
      [](auto) {
        const int64_t C = (1 << 15) + 37;
        std::vector<float> values;
        for (int64_t i = 0; i < 2 * C; ++i) values.push_back(static_cast<float>(i % 251));
        const Tensor x = Tensor::from(values, {2, C}), y = unset<float>({C});
        table<float>().sum_rows(context(), x.data<float>(), y.data<float>(), 2, C);
        return std::vector<Tensor>{y};
      },
      0);
}

TEST(CudaRows, EveryOrderOfAxes) {
  int axis[4] = {0, 1, 2, 3};
  do {
    for (const int64_t inner : {1, 3})
      expect_parity([&](auto t) {
        using T = decltype(t);
        const PermuteShape shape{{2, 3, 4, 5}, {axis[0], axis[1], axis[2], axis[3]}, inner};
        const Tensor x = input<T>({120 * inner}, 1), y = unset<T>({120 * inner});
        table<T>().permute(context(), shape, x.template data<T>(), y.template data<T>());
        return std::vector<Tensor>{y};
      });
  } while (std::next_permutation(axis, axis + 4));
}

// The middle one of three parts of [B,S,3 x H x width], to [P,S,width] and back into the last part.
TEST(CudaRows, RowsBetweenLayouts) {
  for (const int64_t first_bh : {0, 3})
    expect_parity([&](auto t) {
      using T = decltype(t);
      const int64_t B = 2, S = 7, H = 3, width = 5, P = B * H - first_bh, row = 3 * H * width;
      const Tensor x = input<T>({B, S, row}, 1), y = unset<T>({P, S, width});
      const auto part = [&](int64_t index) {
        return HeadRows<T>{
            x.template data<T>() + index * H * width, S * row, width, row, H, first_bh};
      };
      const HeadRows<T> middle = part(1);
      const HeadRows<const T> from{middle.data, middle.batch, middle.head, middle.row, H, first_bh};
      table<T>().copy_rows(context(), from, head_rows(y.template data<T>(), S, width), P, S, width);
      table<T>().copy_rows(context(), head_rows<const T>(y.template data<T>(), S, width), part(2),
                           P, S, width);
      return std::vector<Tensor>{x, y};
    });
}

// Sequences of 5, 0, 9 and more keys than there are; two heads; a tile that starts at the second
// pair.
TEST(CudaRows, PaddingRowsAreCleared) {
  for (const int64_t first : {0, 4, 6})
    expect_parity([&](auto t) {
      using T = decltype(t);
      const int64_t P = 7, S = 4, C = 37;
      const Tensor count = Tensor::from(std::vector<int32_t>{5, 0, 9, 100}, {4}),
                   x = input<T>({P, S, C}, 1);
      const Tensor all = input<T>({P, S, C}, 2);
      const ValidKeys valid{count.template data<int32_t>(), 2, 1};
      table<T>().clear_padding(context(), valid, x.template data<T>(), P, S, C, first);
      table<T>().clear_padding(context(), {}, all.template data<T>(), P, S, C, first);
      return std::vector<Tensor>{x, all};
    });
}

TEST(CudaRows, FutureScoresAreMasked) {
  for (const double value : {0.0, -HUGE_VAL})
    expect_parity([&](auto t) {
      using T = decltype(t);
      const Tensor x = input<T>({3, 37, 37}, 1);
      table<T>().mask_causal(context(), x.template data<T>(), x.template data<T>(), 3 * 37, 37,
                             value);
      return std::vector<Tensor>{x};
    });
}

TEST(CudaRows, ReverseCumsum) {
  for (const auto [R, n] : {RowSize{1, 1}, RowSize{5, 31}, RowSize{5, 32}, RowSize{3, 33},
                            RowSize{2, 1000}, RowSize{0, 3}, RowSize{3, 0}})
    expect_parity([R = R, n = n](auto t) {
      using T = decltype(t);
      const Tensor x = input<T>({R, n}, 1), y = unset<T>({R, n});
      const Tensor totals = input<double>({R}, 2);
      table<T>().reverse_cumsum(context(), x.data<T>(), y.data<T>(), R, n, totals.data<double>());
      return std::vector<Tensor>{y, totals};
    });
}

// 1 is lost next to 1e9 in a float, not in a double.
TEST(CudaRows, ReverseCumsumInDouble) {
  const On device(kCuda);
  std::vector<float> values(64, 0.0f);
  values[63] = 1e9f;
  for (int i = 10; i < 40; ++i) values[i] = 1.0f;
  values[5] = -1e9f;
  const Tensor x = Tensor::from(values, {64});
  table<float>().reverse_cumsum(context(), x.data<float>(), x.data<float>(), 1, 64, nullptr);
  EXPECT_EQ(x.to_vector<float>()[0], 30.0f);
}

}  // namespace
}  // namespace linea::cuda_tests
