// Ops of tensor/ops.h that compute features of queries and keys.
#include "tensor/launch.h"
#include "tensor/ops.h"

namespace linea::ops {

Tensor quadratic_features(const Tensor& x) {
  const int64_t D = columns(x);
  Tensor y(x.shape().with(-1, D * D), x.dtype());
  launch(x.dtype(), "quadratic_features", [&](const auto& table) {
    table.quadratic_features(context(), data(x), data(y), num_rows(x), D);
  });
  return y;
}

Tensor quadratic_features_backward(const Tensor& x, const Tensor& dy) {
  Tensor dx(x.shape(), x.dtype());
  launch(x.dtype(), "quadratic_features_backward", [&](const auto& table) {
    table.quadratic_features_backward(context(), data(x), data(dy), data(dx), num_rows(x),
                                      columns(x));
  });
  return dx;
}

Tensor dpfp_features(const Tensor& x, int64_t nu) {
  const int64_t D = columns(x);
  require(nu >= 1 && nu < 2 * D, "dpfp: nu is {}; it must be in 1..{} for keys of size {}", nu,
          2 * D - 1, D);
  Tensor y(x.shape().with(-1, 2 * D * nu), x.dtype());
  launch(x.dtype(), "dpfp_features", [&](const auto& table) {
    table.dpfp_features(context(), data(x), data(y), num_rows(x), D, nu);
  });
  return y;
}

Tensor dpfp_features_backward(const Tensor& x, const Tensor& dy, int64_t nu) {
  Tensor dx(x.shape(), x.dtype());
  launch(x.dtype(), "dpfp_features_backward", [&](const auto& table) {
    table.dpfp_features_backward(context(), data(x), data(dy), data(dx), num_rows(x), columns(x),
                                 nu);
  });
  return dx;
}

Tensor head_matmul(const Tensor& x, const Tensor& w, int64_t first_bh, bool transpose_w,
                   double alpha) {
  const DType dtype = common_dtype("head_matmul", {&x, &w});
  require(
      x.shape().rank() == 3 && w.shape().rank() == 3 && x.size(2) == w.size(transpose_w ? 2 : 1),
      "head_matmul: {} and {} do not match", x.shape(), w.shape());
  GemmShape shape;
  shape.transpose_b = transpose_w;
  shape.rows = x.size(1);
  shape.inner = x.size(2);
  shape.cols = w.size(transpose_w ? 1 : 2);
  shape.batch = x.size(0);
  shape.stride_a = shape.rows * shape.inner;
  shape.stride_b = shape.inner * shape.cols;
  shape.stride_c = shape.rows * shape.cols;
  shape.alpha = alpha;
  shape.first_b = first_bh;
  shape.period_b = w.size(0);
  Tensor y(x.shape().with(-1, shape.cols), dtype);
  launch(dtype, "head_matmul",
         [&](const auto& table) { table.gemm(context(), shape, data(x), data(w), data(y)); });
  return y;
}

namespace {

HeadShape random_shape(const char* op, const Tensor& x, const Tensor& omega, int64_t first_bh) {
  require(x.shape().rank() == 3 && omega.shape().rank() == 3 && x.size(2) == omega.size(2),
          "{}: rows {} and omega {} do not match", op, x.shape(), omega.shape());
  return {x.size(0), x.size(1), omega.size(1), x.size(2), first_bh, omega.size(0)};
}

}  // namespace

Tensor random_logs(const Tensor& x, const Tensor& omega, int64_t first_bh, double scale) {
  const DType dtype = common_dtype("random_logs", {&x, &omega});
  const HeadShape shape = random_shape("random_logs", x, omega, first_bh);
  Tensor u({shape.batch_heads, shape.rows, shape.features}, dtype);
  launch(dtype, "random_logs", [&](const auto& table) {
    table.random_logs(context(), shape, data(x), data(omega), scale, data(u));
  });
  return u;
}

Tensor random_logs_backward(const Tensor& x, const Tensor& du, const Tensor& omega,
                            int64_t first_bh, double scale) {
  const DType dtype = common_dtype("random_logs_backward", {&x, &du, &omega});
  const HeadShape shape = random_shape("random_logs_backward", x, omega, first_bh);
  require_shape("random_logs_backward", "du", du, {shape.batch_heads, shape.rows, shape.features});
  Tensor dx(x.shape(), dtype);
  launch(dtype, "random_logs_backward", [&](const auto& table) {
    table.random_logs_backward(context(), shape, data(x), data(du), data(omega), scale, data(dx));
  });
  return dx;
}

Tensor square_norms(const Tensor& x, double factor) {
  Tensor w({x.size(0), x.size(1)}, x.dtype());
  launch(x.dtype(), "square_norms", [&](const auto& table) {
    table.square_norms(context(), data(x), data(w), factor, num_rows(x), columns(x));
  });
  return w;
}

void square_norms_backward(const Tensor& x, const Tensor& dw, const Tensor& dx, double factor) {
  launch(common_dtype("square_norms", {&x, &dw, &dx}), "square_norms", [&](const auto& table) {
    table.square_norms_backward(context(), data(x), data(dw), data(dx), factor, num_rows(x),
                                columns(x));
  });
}

Tensor sine_cosine(const Tensor& u) {
  Tensor y(u.shape().with(-1, 2 * columns(u)), u.dtype());
  launch(u.dtype(), "sine_cosine", [&](const auto& table) {
    table.sine_cosine(context(), data(u), data(y), num_rows(u), columns(u));
  });
  return y;
}

Tensor sine_cosine_backward(const Tensor& y, const Tensor& dy) {
  require_shape("sine_cosine", "dy", dy, y.shape());
  Tensor du(y.shape().with(-1, columns(y) / 2), y.dtype());
  launch(common_dtype("sine_cosine", {&y, &dy}), "sine_cosine", [&](const auto& table) {
    table.sine_cosine_backward(context(), data(y), data(dy), data(du), num_rows(du), columns(du));
  });
  return du;
}

Tensor nearest_code(const Tensor& x, const Tensor& codebook, int64_t first_bh) {
  Tensor codes({x.size(0), x.size(1)}, DType::i32);
  const HeadShape shape{x.size(0), x.size(1), codebook.size(1),
                        x.size(2), first_bh,  codebook.size(0)};
  launch(common_dtype("nearest_code", {&x, &codebook}), "nearest_code", [&](const auto& table) {
    table.nearest_code(context(), shape, data(x), data(codebook), data(codes));
  });
  return codes;
}

Tensor gather_codes(const Tensor& codes, const Tensor& codebook, int64_t first_bh) {
  Tensor y({codes.size(0), codes.size(1), codebook.size(2)}, codebook.dtype());
  const HeadShape shape{codes.size(0),    codes.size(1), codebook.size(1),
                        codebook.size(2), first_bh,      codebook.size(0)};
  launch(codebook.dtype(), "gather_codes", [&](const auto& table) {
    table.gather_codes(context(), shape, data(codes), data(codebook), data(y));
  });
  return y;
}

std::pair<Tensor, Tensor> sum_by_code(const Tensor& x, const Tensor& codes, const Shape& codebook) {
  const Tensor counts = Tensor::zeros({codebook[0], codebook[1]}, x.dtype()),
               sums = Tensor::zeros(codebook, x.dtype());
  const HeadShape shape{x.size(0), x.size(1), codebook[1], codebook[2], 0, codebook[0]};
  launch(x.dtype(), "sum_by_code", [&](const auto& table) {
    table.sum_by_code(context(), shape, data(x), data(codes), data(counts), data(sums));
  });
  return {counts, sums};
}

Tensor one_hot_logs(const Tensor& codes, int64_t F, DType dtype) {
  Tensor y({codes.size(0), codes.size(1), F}, dtype);
  launch(dtype, "one_hot_logs", [&](const auto& table) {
    table.one_hot_logs(context(), data(codes), data(y), codes.numel(), F);
  });
  return y;
}

}  // namespace linea::ops
