// Layers of two streams that the backward undoes: the gradients of the plain form, and nothing kept
// of a layer.
#include <gtest/gtest.h>

#include "autograd/gradcheck.h"
#include "autograd/ops.h"
#include "tensor/caching_allocator.h"
#include "tests/expect_error.h"
#include "tests/nn/small_transformer.h"

namespace linea {
namespace {

// Layer l: f = pointwise(Pointwise::gelu, norm(x) A_l), g = dropout(x B_l). Weights: those of each layer, after the first
// Var.
std::vector<ReversibleLayer> layers_of(const std::vector<Var>& v) {
  std::vector<ReversibleLayer> layers;
  for (size_t i = 1; i + 1 < v.size(); i += 2) {
    const Var a = v[i], b = v[i + 1], weight(Tensor::full({a.size(0)}, DType::f64, 1.0));
    layers.push_back(
        {[=](const Var& x) {
           return pointwise(Pointwise::gelu, matmul(layer_norm(x, weight, Var()), a));
         },
         [=](const Var& x) { return dropout(matmul(x, b), 0.3f, static_cast<uint32_t>(i)); }});
  }
  return layers;
}

Var undone(const std::vector<Var>& v) { return reversible(layers_of(v), v[0]); }

// undone() with every stream saved.
Var plain(const std::vector<Var>& v) {
  Var x1 = v[0], x2 = v[0];
  for (const ReversibleLayer& layer : layers_of(v)) {
    x1 = add(x1, layer.f(x2));
    x2 = add(x2, layer.g(x1));
  }
  return add(x1, x2);
}

std::vector<Tensor> input_vars(size_t layers) {
  std::vector<Tensor> inputs = {random_tensor({2, 3, 4}, 1)};
  for (uint32_t i = 0; i < 2 * layers; ++i) inputs.push_back(random_tensor({4, 4}, 2 + i));
  return inputs;
}

TEST(Reversible, PassesGradcheckInDouble) {
  for (const size_t layers : {1, 3}) {
    const GradcheckResult result = gradcheck(undone, input_vars(layers));
    EXPECT_LE(result.error, 1e-7) << layers << " layers, input " << result.worst_input;
  }
}

TEST(Reversible, MatchesTheDirectForm) {
  const auto run = [&](const auto& f) {
    std::vector<Var> v;
    for (const Tensor& x : input_vars(12)) v.emplace_back(x, true);
    const Var y = f(v);
    backward(y, random_tensor(y.shape(), 99));
    std::vector<Tensor> results = {y.value()};
    for (const Var& x : v) results.push_back(x.grad());
    return results;
  };
  const std::vector<Tensor> one = run(undone), other = run(plain);
  for (size_t i = 0; i < one.size(); ++i)
    EXPECT_LE(relative_error(one[i], other[i]), 1e-10) << "result " << i;
}

ModelConfig reversible_model(int64_t layers) {
  ModelConfig config = small_transformer(layers);
  config.reversible = true;
  return config;
}

// Bytes that a forward pass keeps, and the most that are held until its backward pass ends, beyond
// those before it.
struct Held {
  size_t kept, peak;
};
Held held_by(const ModelConfig& config) {
  const Transformer model(config);
  const Tensor ids = Tensor::zeros({16, config.length}, DType::i32);
  for (int i = 0; i < 2; ++i)
    backward(cross_entropy(model.forward(ids, true), ids));  // gradients exist from here on
  const size_t before = cpu_allocator().use().held;
  cpu_allocator().reset_peak();
  const Var loss = cross_entropy(model.forward(ids, true), ids);
  const size_t kept = cpu_allocator().use().held - before;
  backward(loss);
  return {kept, cpu_allocator().use().peak - before};
}

TEST(Reversible, SavesNothingPerLayer) {
  const Held two = held_by(reversible_model(2)), twelve = held_by(reversible_model(12));
  const size_t stream = 16 * 48 * 16 * sizeof(float);
  EXPECT_EQ(two.kept, twelve.kept);
  EXPECT_LT(twelve.peak, two.peak + stream / 2);
}

TEST(Reversible, RefusesWhatItCannotInvert) {
  ModelConfig config = reversible_model(2);
  config.attentions[0].name = "vq";
  expect_error(ErrorKind::usage, {"`reversible`", "vq", "codes"}, [&] { Transformer{config}; });
  config = reversible_model(2);
  config.recompute = true;
  expect_error(ErrorKind::usage, {"`reversible`", "`recompute`"}, [&] { Transformer{config}; });
  config = reversible_model(2);
  config.stored = DType::bf16;
  expect_error(ErrorKind::usage, {"`reversible`", "bf16"}, [&] { Transformer{config}; });
}

}  // namespace
}  // namespace linea
