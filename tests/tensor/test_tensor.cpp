// Shapes, and tensors as handles on storage.
#include "tensor/tensor.h"

#include <gtest/gtest.h>

#include <limits>

#include "tests/expect_error.h"

namespace linea {
namespace {

TEST(Shape, SizesAndProducts) {
  const Shape shape{2, 3, 5};
  EXPECT_EQ(shape.rank(), 3);
  EXPECT_EQ(shape.numel(), 30);
  EXPECT_EQ(shape[0], 2);
  EXPECT_EQ(shape[-1], 5);
  EXPECT_EQ(shape.product(1, 3), 15);
  EXPECT_EQ(shape.product(1, 1), 1);
  EXPECT_EQ(shape.str(), "[2,3,5]");
  EXPECT_EQ(shape.with(-2, 7), (Shape{2, 7, 5}));
  EXPECT_EQ(Shape{}.numel(), 1);
  EXPECT_EQ(Shape{}.str(), "[]");
  EXPECT_EQ((Shape{4, 0, 3}).numel(), 0);
  EXPECT_NE((Shape{2, 3}), (Shape{2, 3, 1}));
  EXPECT_NE((Shape{2, 3}), (Shape{3, 2}));
}

TEST(Shape, ErrorsShowTheValues) {
  EXPECT_EQ(message_of([] { Shape{2, -3}; }), "axis 1 of a shape has the negative size -3");
  EXPECT_EQ(message_of([] { Shape{1, 1, 1, 1, 1, 1, 1}; }),
            "a shape has 7 axes; at most 6 are supported");
  const int64_t large = int64_t{1} << 40;
  EXPECT_NE(message_of([&] {
              Shape{large, large};
            }).find("overflows at axis 1"),
            std::string::npos);
  const Shape shape{2, 3};
  EXPECT_EQ(message_of([&] { shape[2]; }), "axis 2 does not exist in shape [2,3]");
  EXPECT_EQ(message_of([&] { shape[-3]; }), "axis -3 does not exist in shape [2,3]");
  EXPECT_NE(message_of([&] { shape.with(0, -1); }).find("negative size -1"), std::string::npos);
}

TEST(Tensor, HoldsItsValues) {
  const std::vector<float> values = {1, 2, 3, 4, 5, 6};
  const Tensor x = Tensor::from(values, {2, 3});
  EXPECT_EQ(x.to_vector<float>(), values);
  EXPECT_EQ(x.bytes(), 24u);
  EXPECT_EQ(x.to_doubles(), (std::vector<double>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(Tensor::zeros({3}, DType::f64).to_doubles(), (std::vector<double>{0, 0, 0}));
  EXPECT_EQ(Tensor::full({}, DType::f64, 0.25).item(), 0.25);
  EXPECT_EQ(Tensor::from(std::vector<float>{}, {0, 3}).numel(), 0);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(x.address()) % 64, 0u);
}

TEST(Tensor, ViewsShareTheirStorageAndClonesDoNot) {
  const Tensor x =
      Tensor::from(std::vector<double>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, {3, 2, 2});
  const Tensor flat = x.reshape({12}), tail = x.rows(1, 2), slice = x.select(2), copy = x.clone();
  EXPECT_EQ(tail.shape(), (Shape{2, 2, 2}));
  EXPECT_EQ(slice.shape(), (Shape{2, 2}));
  EXPECT_EQ(slice.to_doubles(), (std::vector<double>{8, 9, 10, 11}));
  EXPECT_EQ(tail.rows(1, 1).select(0).to_doubles(), (std::vector<double>{8, 9, 10, 11}));
  x.data<double>()[8] = -1;
  EXPECT_EQ(flat.to_doubles()[8], -1);
  EXPECT_EQ(tail.to_doubles()[4], -1);
  EXPECT_EQ(slice.to_doubles()[0], -1);
  EXPECT_EQ(copy.to_doubles()[8], 8);
  slice.clone();
  const std::vector<double> two = {50, 51};
  x.select(0).select(1).write(two.data());
  EXPECT_EQ(x.to_doubles()[3], 51);
  EXPECT_EQ(x.rows(3, 0).numel(), 0);
}

TEST(Tensor, UniqueCountsHandlesOnTheStorage) {
  Tensor x = Tensor::zeros({4, 2}, DType::f32);
  EXPECT_TRUE(x.unique());
  {
    const Tensor row = x.rows(1, 1);
    EXPECT_FALSE(x.unique());
    EXPECT_FALSE(row.unique());
  }
  EXPECT_TRUE(x.unique());
  const Tensor other = x;
  EXPECT_FALSE(x.unique());
  x = Tensor();
  EXPECT_TRUE(other.unique());
  EXPECT_FALSE(x.unique());
}

TEST(Tensor, ErrorsShowShapesAndDtypes) {
  const Tensor x = Tensor::zeros({2, 3}, DType::f32);
  EXPECT_EQ(message_of([&] {
              x.reshape({4, 2});
            }),
            "cannot reshape [2,3] (6 elements) to [4,2] (8)");
  EXPECT_EQ(message_of([&] { x.rows(1, 2); }), "rows 1..3 do not exist in shape [2,3]");
  EXPECT_EQ(message_of([&] { x.rows(-1, 1); }), "rows -1..0 do not exist in shape [2,3]");
  EXPECT_NE(message_of([&] { x.select(2); }).find("[2,3]"), std::string::npos);
  EXPECT_EQ(message_of([&] { x.data<double>(); }), "a tensor of f32 was used as f64");
  EXPECT_EQ(message_of([&] { x.to_vector<int32_t>(); }), "a tensor of f32 was used as i32");
  EXPECT_EQ(message_of([&] { x.item(); }), "item() needs a tensor of one element, not shape [2,3]");
  EXPECT_EQ(message_of([&] {
              Tensor::from(std::vector<float>{1, 2}, {3});
            }),
            "2 values for shape [3]");
  EXPECT_EQ(message_of([] { Tensor().address(); }), "an undefined tensor has no elements");
  EXPECT_EQ(message_of([] { Tensor().clone(); }), "an undefined tensor has no device");
  const int64_t half = std::numeric_limits<int64_t>::max() / 4;
  EXPECT_NE(message_of([&] { Tensor({half}, DType::f64); }).find("too many bytes"),
            std::string::npos);
}

}  // namespace
}  // namespace linea
