// Where a Profile puts the time of ops.
#include "autograd/profile.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "autograd/ops.h"
#include "tensor/ops.h"

namespace linea {
namespace {

constexpr double kSleep = 0.05;
void sleep() { std::this_thread::sleep_for(std::chrono::duration<double>(kSleep)); }

// An op that takes its time, `forward` and `backward` times the sleep.
Var slow(const char* name, const Var& x, int forward, int backward_times) {
  for (int i = 0; i < forward; ++i) sleep();
  return Var::from_op(name, ops::scale(x.value(), 2), {x},
                      [=](const Tensor& dy) -> std::vector<Gradient> {
                        for (int i = 0; i < backward_times; ++i) sleep();
                        return {ops::scale(dy, 2)};
                      });
}

Tensor ones() { return Tensor::full({3}, DType::f32, 1); }

TEST(Profile, TimesOpsByNameForwardAndBackward) {
  EXPECT_EQ(Profile::current(), nullptr);
  Profile profile;
  EXPECT_EQ(Profile::current(), &profile);
  const Var x(ones(), true);
  sleep();
  EXPECT_GE(profile.restart(), kSleep);  // of no op
  backward(slow("one", slow("two", slow("one", x, 1, 0), 0, 1), 2, 0), ones());
  ASSERT_EQ(profile.ops().size(), 2u);
  EXPECT_GE(profile.ops().at("one").forward, 3 * kSleep);
  EXPECT_LT(profile.ops().at("two").forward, profile.ops().at("one").forward);
  EXPECT_GE(profile.ops().at("two").backward, kSleep);
  EXPECT_LT(profile.ops().at("one").backward, profile.ops().at("two").backward);
}

TEST(Profile, EndsWithItsLife) {
  Profile outer;
  {
    Profile inner;
    scale(Var(ones()), 2);
    EXPECT_EQ(inner.ops().size(), 1u);
  }
  EXPECT_EQ(Profile::current(), &outer);
  EXPECT_TRUE(outer.ops().empty());
  scale(Var(ones()), 2);
  EXPECT_EQ(outer.ops().size(), 1u);
  EXPECT_GT(outer.ops().at("scale").forward, 0.0);
  EXPECT_EQ(outer.ops().at("scale").backward, 0.0);
}

}  // namespace
}  // namespace linea
