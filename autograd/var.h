// Var: a tensor, its gradient and the op that it came from. An eager tape: each op computes at once
// and passes Var::from_op a lambda that turns the gradient of its result into those of its inputs.
//
// Lambdas capture Tensors, never the resulting Var: that would be a cycle that is never freed. The
// graph itself holds no values: what no lambda captures is freed with its last Var.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/scoped.h"
#include "tensor/tensor.h"

namespace linea {

// The gradient of one input: of its shape, or of rows [first_row, ...) of its outermost axis, the
// others being zero. Undefined where the input requires none. cast_to: the type to cast it to;
// backward() casts many at once.
struct Gradient {
  Gradient() = default;
  Gradient(Tensor all) : value(std::move(all)) {}  // NOLINT: implicit, for lists of gradients
  Gradient(Tensor some, int64_t first) : value(std::move(some)), first_row(first) {}
  Tensor value;
  int64_t first_row = -1;
  std::optional<DType> cast_to{};
};

// Those of all inputs of an op; of one input it converts from its gradient.
struct Gradients : std::vector<Gradient> {
  using std::vector<Gradient>::vector;
  Gradients(std::vector<Gradient> all) : vector(std::move(all)) {}  // NOLINT: implicit
  Gradients(Gradient only) : vector{std::move(only)} {}             // NOLINT: implicit
  Gradients(Tensor only) : vector{Gradient(std::move(only))} {}     // NOLINT: implicit
};

using Backward = std::function<Gradients(const Tensor& dy)>;

// The dtype in which a lambda captures a tensor for a backward pass, and attention takes its inputs:
// bf16 for f32 where this thread's products round their factors (FloatProducts::rounded on a CPU), else
// its own.
DType saved_dtype(DType dtype);

class Var {
 public:
  Var() = default;
  // A leaf. Only leaves keep their gradient after backward().
  explicit Var(Tensor value, bool requires_grad = false);

  bool defined() const { return node_ != nullptr; }
  const Tensor& value() const;
  // The value in saved_dtype(dtype()), rounded once for all ops that capture it.
  const Tensor& saved() const;
  Tensor value_or_none() const { return defined() ? value() : Tensor(); }
  const Shape& shape() const { return value().shape(); }
  DType dtype() const { return value().dtype(); }
  int64_t size(int axis) const { return value().size(axis); }
  bool requires_grad() const;
  // The sum over all backward() calls since the last clear; undefined before the first.
  const Tensor& grad() const;
  void clear_grad();
  // Replaces the value of a leaf (a checkpoint, a probe of a gradient). Errors: not a leaf, another
  // shape or dtype.
  void set_value(Tensor value);

  // Whether an op on these inputs must save what its backward needs.
  static bool gradients_needed(const std::vector<Var>& inputs);
  // The result of an op: records `inputs`, of which some may be undefined, and `backward` where a
  // gradient is needed.
  // `saved`: the value in saved_dtype(), where `backward` captured it.
  static Var from_op(const char* op, Tensor value, const std::vector<Var>& inputs,
                     Backward backward, Tensor saved = {});

 private:
  struct Node;
  class Casts;
  friend void backward(const Var& root, const Tensor& seed);
  static void receive(Node& node, Gradient gradient, const char* op, size_t index);
  Tensor value_;  // of an op's result; a leaf's is in its node
  std::shared_ptr<Node> node_;
};

// Adds d(seed . root)/d(leaf) to every leaf that requires a gradient; the seed defaults to 1 where
// root has one element. Walks from the latest op to the earliest and frees each op's tensors on the
// way. Errors, each naming the op: a gradient that is missing or of another shape or dtype; a graph
// walked twice.
void backward(const Var& root, const Tensor& seed = Tensor());

// While one lives, ops on this thread record nothing.
struct NoGrad : Scoped<bool> {
  NoGrad();
};
// While one lives, ops record again: for a backward that runs a function once more.
struct WithGrad : Scoped<bool> {
  WithGrad();
};
// While one lives, the first op whose result is not finite throws ErrorKind::numeric with its name
// and its module.
struct DetectNonfinite : Scoped<bool> {
  DetectNonfinite();
};

// y = f(x), of which only x is saved: the backward runs f once more. f must give the same bits each
// time; leaves that it uses besides x (parameters) get their gradients from it directly, provided
// that x requires one.
Var recomputed(const std::function<Var(const Var&)>& f, const Var& x);

// Residual layers of two streams, which can be undone:  y1 = x1 + f(x2),  y2 = x2 + g(y1).
// Source: Gomez 2017, "The Reversible Residual Network", section 3; in Transformers: Kitaev 2020,
// "Reformer".
struct ReversibleLayer {
  using Branch = std::function<Var(const Var& x)>;
  Branch f, g;
};
// y1 + y2 of the last layer, both streams starting as x. Only y1 and y2 of the last layer are
// saved: the backward subtracts g(y1) and f(x2) again, which restores the inputs up to the rounding
// of sums. f and g must give the same bits each time; their other leaves get gradients as in
// recomputed().
Var reversible(std::vector<ReversibleLayer> layers, const Var& x);

// While one lives, errors name this module of the model for the ops of this thread: "blocks.3". The
// innermost counts.
class ModuleScope {
 public:
  // `number` below 0: a module of which there is one.
  explicit ModuleScope(const char* module, int64_t number = -1);
  // " in blocks.3"; empty outside of any.
  static std::string path();

 private:
  const char* module_;
  int64_t number_;
  Scoped<const ModuleScope*> current_;
};

}  // namespace linea
