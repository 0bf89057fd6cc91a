#include "autograd/var.h"

#include <algorithm>
#include <queue>
#include <utility>

#include "autograd/decisions.h"
#include "autograd/layer_boundary.h"
#include "autograd/profile.h"
#include "tensor/ops.h"

namespace linea {
namespace {

thread_local bool recording = true;
// Ops record nothing, but compute as if they did: they will run again for their gradients.
thread_local bool rehearsing = false;
thread_local bool detecting = false;
thread_local const ModuleScope* current_module = nullptr;
thread_local uint64_t next_order = 0;
thread_local BackwardListener* listener = nullptr;
thread_local const std::function<void()>* finish_casts = nullptr;  // of the innermost backward()

}  // namespace

// `order` grows with each op: an input has a smaller one than the results.
struct Var::Node {
  Tensor value, saved, grad;  // value: a leaf's alone
  Shape shape;
  DType dtype = DType::f32;
  bool requires_grad = false;
  bool queued = false;
  uint64_t order = 0;
  const char* op = "leaf";
  bool leaf = true;
  std::vector<std::shared_ptr<Node>> inputs;
  Backward backward;

  // Frees the nodes that only this one keeps alive in a loop: a chain a million ops deep must not
  // recurse.
  ~Node() {
    std::vector<std::shared_ptr<Node>> pending = std::move(inputs);
    while (!pending.empty()) {
      const std::shared_ptr<Node> node = std::move(pending.back());
      pending.pop_back();
      if (node.use_count() != 1) continue;
      for (std::shared_ptr<Node>& input : node->inputs) pending.push_back(std::move(input));
      node->inputs.clear();
    }
  }
};

DType saved_dtype(DType dtype) {
  const Context& ctx = context();
  const bool rounded = ctx.device.kind == DeviceKind::cpu &&
                       ctx.products == FloatProducts::rounded && dtype == DType::f32;
  return rounded ? DType::bf16 : dtype;
}

Var::Var(Tensor value, bool requires_grad) : node_(std::make_shared<Node>()) {
  require(value.defined(), "a Var needs a defined tensor");
  require(!requires_grad || value.dtype() != DType::i32, "an i32 tensor has no gradient");
  node_->shape = value.shape();
  node_->dtype = value.dtype();
  node_->value = std::move(value);
  node_->requires_grad = requires_grad;
}

const Tensor& Var::value() const {
  require(defined(), "an undefined Var has no value");
  return node_->leaf ? node_->value : value_;
}

const Tensor& Var::saved() const {
  Tensor& own = node_->saved;
  if (!own.defined()) own = ops::cast(value(), saved_dtype(dtype()));
  return own;
}

bool Var::requires_grad() const { return defined() && node_->requires_grad; }

const Tensor& Var::grad() const {
  require(defined(), "an undefined Var has no gradient");
  return node_->grad;
}

void Var::clear_grad() {
  require(defined(), "an undefined Var has no gradient");
  node_->grad = Tensor();
}

void Var::set_value(Tensor value) {
  require(defined() && node_->leaf, "only a leaf's value can be replaced");
  require(value.shape() == shape() && value.dtype() == dtype(),
          "a leaf of {} {} cannot take a value of {} {}", name_of(dtype()), shape(),
          name_of(value.dtype()), value.shape());
  node_->saved = Tensor();
  node_->value = std::move(value);
}

bool Var::gradients_needed(const std::vector<Var>& inputs) {
  return (recording || rehearsing) &&
         std::any_of(inputs.begin(), inputs.end(),
                     [](const Var& input) { return input.requires_grad(); });
}

Var Var::from_op(const char* op, Tensor value, const std::vector<Var>& inputs, Backward backward,
                 Tensor saved) {
  if (Profile* profile = Profile::current()) profile->op_ended(op, &Profile::Times::forward);
  if (detecting) {
    const int64_t bad = value.dtype() == DType::i32 ? 0 : ops::count_nonfinite(value);
    if (bad > 0)
      fail(ErrorKind::numeric,
           "{} of the {} values that the op {} made{} are not finite (shape {})", bad,
           value.numel(), op, ModuleScope::path(), value.shape().str());
  }
  Var result(std::move(value));
  if (!gradients_needed(inputs)) return result;
  Node& node = *result.node_;
  node.requires_grad = true;
  if (!recording) return result;  // rehearsing: only the flag matters
  node.leaf = false;
  result.value_ = std::move(node.value);
  node.saved = std::move(saved);
  node.op = op;
  node.order = ++next_order;
  node.backward = std::move(backward);
  node.inputs.reserve(inputs.size());
  for (const Var& input : inputs) node.inputs.push_back(input.node_);
  return result;
}

// Checks a gradient and adds it to its node.
void Var::receive(Node& node, Gradient gradient, const char* op, size_t index) {
  const Tensor& value = gradient.value;
  require(value.defined(), "the backward of {} gave no gradient for its input {}, which needs one",
          op, index);
  require(value.dtype() == node.dtype, "the backward of {} gave input {} a gradient of {}, not {}",
          op, index, name_of(value.dtype()), name_of(node.dtype));
  if (gradient.first_row < 0) {
    require(value.shape() == node.shape,
            "the backward of {} gave input {} a gradient of shape {}, not {}", op, index,
            value.shape(), node.shape);
    if (!node.grad.defined()) {
      node.grad = std::move(gradient.value);
    } else if (node.grad.unique()) {
      ops::accumulate(value, node.grad);
    } else {  // another handle shares the memory
      node.grad = ops::add(node.grad, value);
    }
    return;
  }
  if (!node.grad.defined()) {
    node.grad = Tensor::zeros(node.shape, node.dtype);
  } else if (!node.grad.unique()) {
    node.grad = node.grad.clone();
  }
  const int64_t row = node.shape.product(1, node.shape.rank());
  const Tensor target = node.grad.rows(gradient.first_row, row == 0 ? 0 : value.numel() / row);
  ops::accumulate(value.reshape(target.shape()), target);
}

// Gradients of leaves to be cast: many by one launch, but not so many that the gradients of all
// parameters are held in both types.
class Var::Casts {
 public:
  void add(const std::shared_ptr<Node>& leaf, const Gradient& gradient) {
    const DType own = leaf->dtype;
    require(*gradient.cast_to == own, "a gradient of {} was to become {}, not {}",
            name_of(gradient.value.dtype()), name_of(*gradient.cast_to), name_of(own));
    constexpr size_t kMax = 32;
    if (leaves_.size() == kMax || (!leaves_.empty() && leaves_[0]->dtype != own)) finish();
    leaves_.push_back(leaf);
    given_.push_back(gradient.value);
  }
  void finish() {
    if (leaves_.empty()) return;
    const std::vector<Tensor> cast = ops::cast_all(given_, leaves_[0]->dtype);
    for (size_t i = 0; i < cast.size(); ++i) Var::receive(*leaves_[i], cast[i], "cast", 0);
    leaves_.clear();
    given_.clear();
  }

 private:
  std::vector<std::shared_ptr<Node>> leaves_;
  std::vector<Tensor> given_;
};

void backward(const Var& root, const Tensor& seed) {
  using NodePtr = std::shared_ptr<Var::Node>;
  require(root.requires_grad(), "backward() from a value that needs no gradient");
  require(seed.defined() || root.value().numel() == 1,
          "backward() from a value of shape {} needs a seed of that shape", root.shape());
  const NoGrad no_grad;
  Var::receive(*root.node_, seed.defined() ? seed : Tensor::full(root.shape(), root.dtype(), 1.0),
               "seed", 0);
  const auto earlier = [](const NodePtr& a, const NodePtr& b) { return a->order < b->order; };
  std::priority_queue<NodePtr, std::vector<NodePtr>, decltype(earlier)> pending(earlier);
  Var::Casts casts;
  const std::function<void()> finish = [&] { casts.finish(); };
  const Scoped finished(finish_casts, &finish);
  if (!root.node_->leaf) pending.push(root.node_);
  while (!pending.empty()) {
    const NodePtr node = pending.top();
    pending.pop();
    node->queued = false;
    require(static_cast<bool>(node->backward),
            "backward() ran through the op {} already and freed its graph", node->op);
    const Tensor dy = std::move(node->grad);
    node->grad = Tensor();
    const Backward node_backward = std::move(node->backward);
    node->backward = nullptr;
    const std::vector<NodePtr> inputs = std::move(node->inputs);
    node->inputs.clear();
    Gradients gradients = node_backward(dy);
    require(gradients.size() == inputs.size(), "the backward of {} gave {} gradients for {} inputs",
            node->op, gradients.size(), inputs.size());
    for (size_t index = 0; index < inputs.size(); ++index) {
      if (inputs[index] == nullptr || !inputs[index]->requires_grad) continue;
      Var::Node& input = *inputs[index];
      Gradient& gradient = gradients[index];
      if (gradient.cast_to && input.leaf) {
        casts.add(inputs[index], gradient);
        continue;
      }
      if (gradient.cast_to) gradient.value = ops::cast(gradient.value, *gradient.cast_to);
      Var::receive(input, std::move(gradient), node->op, index);
      if (input.leaf || input.queued) continue;
      input.queued = true;
      pending.push(inputs[index]);
    }
    if (Profile* profile = Profile::current())
      profile->op_ended(node->op, &Profile::Times::backward);
    if (listener != nullptr) listener->op_done();
  }
  casts.finish();
}

// Ops are numbered in order of creation and go back by falling number, so that all ops behind x are
// done.
Var layer_boundary(const Var& x, int64_t number) {
  if (listener == nullptr || !Var::gradients_needed({x})) return x;
  return Var::from_op(
      "layer_boundary", x.value(), {x},
      [number](const Tensor& dy) {
        (*finish_casts)();
        if (listener != nullptr) listener->passed(number);
        return dy;
      },
      x.saved());
}

namespace {

// While one lives, ops record nothing but compute the bits that they compute when they record.
struct Rehearsal : Scoped<bool> {
  Rehearsal() : Scoped(rehearsing, rehearsing || recording) {}
  NoGrad no_grad;
};

// Runs f(x) and its backward; returns f(x).
Tensor back_through(const std::function<Var(const Var&)>& f, const Var& x, const Tensor& dy) {
  const WithGrad with_grad;  // the outer backward() has switched recording off
  const Var y = f(x);
  backward(y, dy);
  return y.value();
}

// y = before + branch(x) becomes `before`; dx gets the gradient through the branch. x is restored
// up to rounding, so what the branch decides by it is given.
void undo(const ReversibleLayer::Branch& branch, const Decisions& decisions, const Tensor& x,
          Tensor& dx, Tensor& y, const Tensor& dy) {
  const ReplayDecisions replay(decisions);
  const Var given(x, true);
  y = ops::add(y, ops::scale(back_through(branch, given, dy), -1));
  dx = ops::add(dx, given.grad());
}

}  // namespace

Var recomputed(const std::function<Var(const Var&)>& f, const Var& x) {
  if (!recording) return f(x);
  Tensor y;
  {
    const Rehearsal rehearsal;
    y = f(Var(x.value())).value();
  }
  return Var::from_op("recomputed", y, {x}, [f, x = x.value()](const Tensor& dy) {
    const Var leaf(x, true);
    back_through(f, leaf, dy);
    return leaf.grad();
  });
}

Var reversible(std::vector<ReversibleLayer> layers, const Var& x) {
  Tensor y1 = x.value(), y2 = y1;
  std::vector<Decisions> decisions(2 * layers.size());  // of f and g of each layer
  {
    const Rehearsal rehearsal;
    auto own = decisions.begin();
    const auto apply = [&](const ReversibleLayer::Branch& branch, const Tensor& to) {
      const RecordDecisions record(*own++);
      return branch(Var(to)).value();
    };
    for (const ReversibleLayer& layer : layers) {
      y1 = ops::add(y1, apply(layer.f, y2));
      y2 = ops::add(y2, apply(layer.g, y1));
    }
  }
  return Var::from_op(
      "reversible", ops::add(y1, y2), {x},
      [layers = std::move(layers), decisions = std::move(decisions), y1, y2](const Tensor& dy) {
        Tensor of1 = y1, of2 = y2, d1 = dy, d2 = dy;
        auto own = decisions.rbegin();
        for (auto layer = layers.rbegin(); layer != layers.rend(); ++layer) {
          undo(layer->g, *own++, of1, d1, of2, d2);
          undo(layer->f, *own++, of2, d2, of1, d1);
          if (listener != nullptr) listener->passed(layers.rend() - layer - 1);
        }
        return ops::add(d1, d2);
      });
}

ListenToBackward::ListenToBackward(BackwardListener* given) : Scoped(listener, given) {}
NoGrad::NoGrad() : Scoped(recording, false) {}
WithGrad::WithGrad() : Scoped(recording, true) {}
DetectNonfinite::DetectNonfinite() : Scoped(detecting, true) {}

ModuleScope::ModuleScope(const char* module, int64_t number)
    : module_(module), number_(number), current_(current_module, this) {}
std::string ModuleScope::path() {
  if (current_module == nullptr) return "";
  if (current_module->number_ < 0) return fmt::format(" in {}", current_module->module_);
  return fmt::format(" in {}.{}", current_module->module_, current_module->number_);
}

}  // namespace linea
