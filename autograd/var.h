// Var: a tensor, its gradient, and how it was made. An eager tape: each op computes at once and
// hands a Var the lambda that turns the gradient of its result into the gradients of its inputs.
//
// Lambdas capture Tensors, never the resulting Var: that would be a cycle that frees nothing.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "tensor/tensor.h"

namespace linea {

// The gradient of one input: of its shape, or of rows [first_row, ...) of its outermost axis, the
// rest being zero. Undefined where the input needs none. cast_to: the type that it is still to be
// cast to, which backward() does with others at once.
struct Gradient {
  Gradient() = default;
  Gradient(Tensor all) : value(std::move(all)) {}  // NOLINT: a tensor is the gradient of the whole
  Gradient(Tensor some, int64_t first) : value(std::move(some)), first_row(first) {}
  Tensor value;
  int64_t first_row = -1;
  std::optional<DType> cast_to{};
};

using Backward = std::function<std::vector<Gradient>(const Tensor& dy)>;

class Var {
 public:
  Var() = default;
  // A leaf. Only leaves keep their gradient after backward().
  explicit Var(Tensor value, bool requires_grad = false);

  bool defined() const { return node_ != nullptr; }
  const Tensor& value() const;
  const Shape& shape() const { return value().shape(); }
  DType dtype() const { return value().dtype(); }
  int64_t size(int axis) const { return value().size(axis); }
  bool requires_grad() const;
  // The sum of the gradients of all backward() calls since the last clear; undefined before the
  // first.
  const Tensor& grad() const;
  void clear_grad();
  // Replaces the value of a leaf (a checkpoint, a probe of a gradient). Error: not a leaf, other
  // shape.
  void set_value(Tensor value);

  // Whether a gradient will be asked for, of what is made of these.
  static bool gradients_needed(const std::vector<Var>& inputs);
  // What an op returns: remembers `inputs` and `backward` where a gradient will be asked for.
  static Var from_op(const char* op, Tensor value, const std::vector<Var>& inputs,
                     Backward backward);

 private:
  struct Node;
  class Casts;
  friend void backward(const Var& root, const Tensor& seed);
  static void receive(Node& node, Gradient gradient, const char* op, size_t index);
  std::shared_ptr<Node> node_;
};

// Adds d(seed . root)/d(leaf) to every leaf that requires it; the seed may be left out where root
// has one element. Walks from the latest op to the earliest, and frees each op's tensors as it
// passes. Errors, each naming the op: a gradient that is missing, of another shape or dtype; a
// graph walked twice.
void backward(const Var& root, const Tensor& seed = Tensor());

// While one lives, ops on this thread remember nothing.
class NoGrad {
 public:
  NoGrad();
  ~NoGrad();
  NoGrad(const NoGrad&) = delete;
  NoGrad& operator=(const NoGrad&) = delete;

 private:
  bool before_;
};

// While one lives, ops remember again: in a backward that runs a function once more, to go back
// through it.
class WithGrad {
 public:
  WithGrad();
  ~WithGrad();
  WithGrad(const WithGrad&) = delete;
  WithGrad& operator=(const WithGrad&) = delete;

 private:
  bool before_;
};

// y = f(x), of which only x is kept: the backward runs f once more and goes back through that. f
// must give the same bits each time; leaves that it uses besides x (parameters) get their gradients
// from it directly, where x needs one.
Var recomputed(const std::function<Var(const Var&)>& f, const Var& x);

// Residual layers of two streams, which can be undone:  y1 = x1 + f(x2),  y2 = x2 + g(y1).
// Source: Gomez 2017, "The Reversible Residual Network", section 3; in Transformers: Kitaev 2020,
// "Reformer".
struct ReversibleLayer {
  using Branch = std::function<Var(const Var& x)>;
  Branch f, g;
};
// y1 + y2 of the last layer, both streams starting as x. Kept are y1 and y2 of the last layer
// alone, however many there are: the backward takes g(y1) and f(x2) off again, which gives back
// what went in but for the rounding of sums. f and g must give the same bits each time; leaves that
// they use besides x get their gradients directly, where x needs one.
Var reversible(std::vector<ReversibleLayer> layers, const Var& x);

// While one lives, the ops that this thread makes belong to a part of a model, which errors name:
// "blocks.3". The innermost counts.
class ModuleScope {
 public:
  // `number` below 0: a part of which there is one.
  explicit ModuleScope(const char* part, int64_t number = -1);
  ~ModuleScope();
  ModuleScope(const ModuleScope&) = delete;
  ModuleScope& operator=(const ModuleScope&) = delete;

  // " in blocks.3"; empty outside of any.
  static std::string path();

 private:
  const char* part_;
  int64_t number_;
  const ModuleScope* outer_;
};

// While one lives, the first op whose result is not finite throws ErrorKind::numeric with its name
// and place.
class DetectNonfinite {
 public:
  DetectNonfinite();
  ~DetectNonfinite();
  DetectNonfinite(const DetectNonfinite&) = delete;
  DetectNonfinite& operator=(const DetectNonfinite&) = delete;

 private:
  bool before_;
};

}  // namespace linea
