// Initial values: each parameter has a random stream of its own.
#include "nn/parameter.h"

#include <gtest/gtest.h>

#include "base/random.h"

namespace linea {
namespace {

std::vector<float> values(const Var& var) { return var.value().to_vector<float>(); }

TEST(ParameterInit, ParametersTakeTheStreamsInOrder) {
  Parameters list;
  ParameterInit init(list, 7);
  init.normal("first.weight", {2}, 0.5);
  init.constant("first.bias", {3}, 1.0);  // takes stream 1, which it does not read
  init.add({"codes", Var(Tensor::zeros({1}, DType::f32), true)});
  init.normal("second.weight", {2}, 0.5);
  ASSERT_EQ(list.size(), 4u);
  EXPECT_EQ(values(list[1].var), (std::vector<float>{1, 1, 1}));
  for (const uint32_t index : {0u, 3u}) {
    const RandomStream stream{7, Purpose::init, index, 0};
    EXPECT_EQ(values(list[index].var),
              (std::vector<float>{static_cast<float>(0.5 * random_normal(stream, 0)),
                                  static_cast<float>(0.5 * random_normal(stream, 1))}));
  }
}

TEST(ParameterInit, AnOptionalParameterChangesNoOther) {
  const auto make = [](bool with_optional) {
    Parameters list;
    ParameterInit init(list, 7);
    init.normal("first.weight", {4}, 1.0);
    if (with_optional) {
      init.normal("scale.weight", {4}, 1.0, true);
      init.add({"decay", Var(Tensor::zeros({1}, DType::f32), true), true});
    }
    init.normal("second.weight", {4}, 1.0);
    return list;
  };
  const Parameters without = make(false), with = make(true);
  ASSERT_EQ(with.size(), 4u);
  EXPECT_EQ(values(with[0].var), values(without[0].var));
  EXPECT_EQ(values(with[3].var), values(without[1].var));
  for (const Parameter& other : without) EXPECT_NE(values(with[1].var), values(other.var));
}

}  // namespace
}  // namespace linea
