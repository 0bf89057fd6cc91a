#include "autograd/ops.h"
#include "tensor/ops.h"

namespace linea {

// y = a + b;  da = dy, db = dy
Var add(const Var& a, const Var& b) {
  return Var::from_op("add", ops::add(a.value(), b.value()), {a, b}, [](const Tensor& dy) {
    return Gradients{dy, dy};
  });
}

// y = a b;  da = b dy, db = a dy
Var multiply(const Var& a, const Var& b) {
  return Var::from_op("multiply", ops::multiply(a.value(), b.value()), {a, b},
                      [a = a.value(), b = b.value()](const Tensor& dy) {
                        return Gradients{ops::multiply(b, dy), ops::multiply(a, dy)};
                      });
}

// y = c x;  dx = c dy
Var scale(const Var& x, double factor) {
  return Var::from_op("scale", ops::scale(x.value(), factor), {x},
                      [factor](const Tensor& dy) { return ops::scale(dy, factor); });
}

// y_r = x_r + b;  dx = dy, db = sum_r dy_r
Var add_rows(const Var& x, const Var& row) {
  return Var::from_op("add_rows", ops::add_rows(x.value(), row.value()), {x, row},
                      [shape = row.shape()](const Tensor& dy) {
                        return Gradients{dy, ops::sum_rows(dy, shape)};
                      });
}

// y = x in another type;  dx = dy in x's own
Var cast(const Var& x, DType dtype) { return x.dtype() == dtype ? x : cast_all({x}, dtype)[0]; }

std::vector<Var> cast_all(const std::vector<Var>& xs, DType dtype) {
  std::vector<Tensor> values;
  for (const Var& x : xs) values.push_back(x.value());
  const std::vector<Tensor> results = ops::cast_all(values, dtype);
  std::vector<Var> ys;
  for (size_t i = 0; i < xs.size(); ++i)
    ys.push_back(Var::from_op("cast", results[i], {xs[i]}, [own = xs[i].dtype()](const Tensor& dy) {
      Gradient dx(dy);
      dx.cast_to = own;
      return dx;
    }));
  return ys;
}

// y = f(x);  dx = f'(x) dy
Var pointwise(Pointwise f, const Var& x) {
  return Var::from_op(
      "pointwise", ops::pointwise(f, x.value()), {x},
      [f, x = x.value()](const Tensor& dy) { return ops::pointwise_backward(f, x, dy); });
}

Var exp(const Var& x) { return pointwise(Pointwise::exp, x); }

// y = x m / (1 - rate), m in {0,1};  dx = dy m / (1 - rate): the same random numbers
Var dropout(const Var& x, float rate, uint32_t stream_id) {
  if (rate == 0) return x;
  return Var::from_op(
      "dropout", ops::dropout(x.value(), rate, stream_id), {x},
      [rate, stream_id](const Tensor& dy) { return ops::dropout(dy, rate, stream_id); });
}

// y = x with zeros where the keys do not exist;  dx = dy with the same zeros
Var clear_padding(const Var& x, const Tensor& valid) {
  if (!valid.defined()) return x;
  const auto clear = [valid](const Tensor& tensor) {
    const Tensor result = tensor.clone();
    ops::clear_padding(result, valid);
    return result;
  };
  return Var::from_op("clear_padding", clear(x.value()), {x}, clear);
}

}  // namespace linea
