#include "autograd/ops.h"
#include "tensor/launch.h"
#include "tensor/ops.h"

namespace linea {

// Y = op(A) op(B);  d op(A) = dY op(B)^T,  d op(B) = op(A)^T dY
Var matmul(const Var& a, const Var& b, bool transpose_a, bool transpose_b) {
  return Var::from_op(
      "matmul", ops::matmul(a.value(), b.value(), transpose_a, transpose_b), {a, b},
      [a = a.value(), b = b.value(), transpose_a, transpose_b, needs_a = a.requires_grad(),
       needs_b = b.requires_grad()](const Tensor& dy) -> Gradients {
        Tensor da, db;
        if (needs_a)
          da = transpose_a ? ops::matmul(b, dy, transpose_b, true)
                           : ops::matmul(dy, b, false, !transpose_b);
        if (needs_b && b.shape().rank() == 2 && !transpose_a) {  // one B for all rows of A
          const Tensor flat_a = a.reshape({a.numel() / a.shape()[-1], a.shape()[-1]});
          const Tensor flat_dy = dy.reshape({dy.numel() / dy.shape()[-1], dy.shape()[-1]});
          db =
              transpose_b ? ops::matmul(flat_dy, flat_a, true) : ops::matmul(flat_a, flat_dy, true);
        } else if (needs_b) {
          db = transpose_b ? ops::matmul(dy, a, true, transpose_a)
                           : ops::matmul(a, dy, !transpose_a);
        }
        return {da, db};
      });
}

Var reshape(const Var& x, const Shape& shape) {
  return Var::from_op("reshape", x.value().reshape(shape), {x},
                      [before = x.shape()](const Tensor& dy) { return dy.reshape(before); });
}

Var rows(const Var& x, int64_t first, int64_t count) {
  return Var::from_op("rows", x.value().rows(first, count), {x},
                      [first](const Tensor& dy) { return Gradient(dy, first); });
}

Var select(const Var& x, int64_t index) {
  return Var::from_op("select", x.value().select(index), {x},
                      [index](const Tensor& dy) { return Gradient(dy, index); });
}

Var concatenate(const std::vector<Var>& xs) {
  int64_t count = 0;
  for (const Var& x : xs) count += x.size(0);
  const Tensor y(xs.at(0).shape().with(0, count), xs[0].dtype());
  std::vector<int64_t> counts;
  for (int64_t first = 0; const Var& x : xs) {
    counts.push_back(x.size(0));
    ops::copy_into(x.value(), y.rows(first, x.size(0)));
    first += x.size(0);
  }
  return Var::from_op("concatenate", y, xs, [counts](const Tensor& dy) {
    Gradients gradients;
    for (int64_t first = 0; const int64_t own : counts) {
      gradients.emplace_back(dy.rows(first, own));
      first += own;
    }
    return gradients;
  });
}

namespace {

// y[:, to ..] = x[:, from ..], `count` columns of rows of x and y.
void copy_columns(const Tensor& x, int64_t from, const Tensor& y, int64_t to, int64_t count) {
  const int64_t width = x.size(-1), wide = y.size(-1);
  const int64_t R = width == 0 || wide == 0 ? 0 : x.numel() / width;
  with_real(x.dtype(), "columns", [&](auto zero) {
    using T = decltype(zero);
    HeadRows<const T> source{x.data<T>() + from, width, 0, width, 1, 0};
    HeadRows<T> target{y.data<T>() + to, wide, 0, wide, 1, 0};
    kernels<T>(context().device).copy_rows(context(), source, target, R, 1, count);
  });
}

}  // namespace

// y = some columns of x;  dx = dy there, 0 elsewhere
Var columns(const Var& x, int64_t first, int64_t count) {
  if (count == x.size(-1)) return x;
  const Tensor y(x.shape().with(-1, count), x.dtype());
  copy_columns(x.value(), first, y, 0, count);
  return Var::from_op("columns", y, {x}, [=, shape = x.shape()](const Tensor& dy) {
    const Tensor dx = Tensor::zeros(shape, dy.dtype());
    copy_columns(dy, 0, dx, first, count);
    return dx;
  });
}

Var join_columns(const std::vector<Var>& xs) {
  int64_t width = 0;
  for (const Var& x : xs) width += x.size(-1);
  const Tensor y(xs.at(0).shape().with(-1, width), xs[0].dtype());
  int64_t first = 0;
  std::vector<Shape> shapes;
  for (const Var& x : xs) {
    ops::require_shape("join_columns", "x", x.value(), y.shape().with(-1, x.size(-1)));
    copy_columns(x.value(), 0, y, first, x.size(-1));
    first += x.size(-1);
    shapes.push_back(x.shape());
  }
  return Var::from_op("join_columns", y, xs, [shapes](const Tensor& dy) {
    Gradients gradients;
    int64_t at = 0;
    for (const Shape& shape : shapes) {
      const Tensor dx(shape, dy.dtype());
      copy_columns(dy, at, dx, 0, shape[-1]);
      at += shape[-1];
      gradients.emplace_back(dx);
    }
    return gradients;
  });
}

Var join_rows(const std::vector<Var>& xs) {
  const int64_t B = xs.at(0).size(0), H = xs[0].size(1), D = xs[0].size(3);
  std::vector<Var> flat;
  for (const Var& x : xs) flat.push_back(reshape(x, {B * H, x.size(2) * D}));
  const Var joined = join_columns(flat);
  return reshape(joined, {B, H, joined.size(1) / D, D});
}

namespace {

// y = x with its axes in another order;  dx the other way
Var permute(const char* op, const Var& x, const PermuteShape& there, const Shape& to,
            const PermuteShape& back) {
  return Var::from_op(
      op, ops::permute(x.value(), there, to), {x},
      [back, from = x.shape()](const Tensor& dy) { return ops::permute(dy, back, from); });
}

}  // namespace

// y[p,b,h,n,:] = x[b,n,p,h,:]
Var split_heads(const Var& x, int64_t parts, int64_t heads) {
  const int64_t B = x.size(0), N = x.size(1), width = x.size(2);
  require(x.shape().rank() == 3 && width % (parts * heads) == 0,
          "split_heads: {} does not divide into {} parts of {} heads", x.shape(), parts, heads);
  const int64_t D = width / (parts * heads);
  return permute("split_heads", x, {{B, N, parts, heads}, {2, 0, 3, 1}, D}, {parts, B, heads, N, D},
                 {{parts, B, heads, N}, {1, 3, 0, 2}, D});
}

// y[b,n,h,:] = x[b,h,n,:]
Var merge_heads(const Var& x) {
  require(x.shape().rank() == 4, "merge_heads: {} is not [B,H,N,D]", x.shape());
  const int64_t B = x.size(0), H = x.size(1), N = x.size(2), D = x.size(3);
  return permute("merge_heads", x, {{1, B, H, N}, {0, 1, 3, 2}, D}, {B, N, H * D},
                 {{1, B, N, H}, {0, 1, 3, 2}, D});
}

namespace {

// x [..., N, N] with zeros on and above the diagonal. On the host: only an oracle needs it.
Tensor strictly_lower(const Tensor& x) {
  return with_real(x.dtype(), "strictly_lower", [&](auto zero) {
    auto values = x.to_vector<decltype(zero)>();
    const size_t N = static_cast<size_t>(x.size(-1));
    for (size_t i = 0; i < values.size(); ++i)
      if (i % N >= i / N % N) values[i] = zero;
    return Tensor::from(values, x.shape());
  });
}

// x = L^-1 e, or L^-T e; l [..., N, N] is L below the diagonal, e [..., N, M]
Tensor solve(const Tensor& l, const Tensor& e, bool transpose) {
  const Tensor x(e.shape(), e.dtype());
  const int64_t N = e.size(-2), M = e.size(-1);
  if (e.numel() > 0)
    LINEA_LAUNCH(solve_unit_lower, e.dtype(), l, e, x, transpose, e.numel() / (N * M), N, M);
  return x;
}

}  // namespace

// X = L^-1 E;  dE = L^-T dX, dL = -strictly_lower(dE X^T)
Var solve_unit_lower(const Var& l, const Var& e) {
  const Tensor x = solve(l.value(), e.value(), false);
  return Var::from_op("solve_unit_lower", x, {l, e}, [l = l.value(), x](const Tensor& dx) {
    const Tensor de = solve(l, dx, true);
    return Gradients{strictly_lower(ops::matmul(de, x, false, true, -1)), de};
  });
}

}  // namespace linea
