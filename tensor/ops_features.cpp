// Ops of tensor/ops.h that compute features of queries and keys.
#include "tensor/launch.h"
#include "tensor/ops.h"

namespace linea::ops {

Tensor quadratic_features(const Tensor& x) {
  const int64_t D = columns(x);
  Tensor y(x.shape().with(-1, D * D), x.dtype());
  LINEA_LAUNCH(quadratic_features, x.dtype(), x, y, num_rows(x), D);
  return y;
}

Tensor quadratic_features_backward(const Tensor& x, const Tensor& dy) {
  Tensor dx(x.shape(), x.dtype());
  LINEA_LAUNCH(quadratic_features_backward, x.dtype(), x, dy, dx, num_rows(x), columns(x));
  return dx;
}

int64_t dpfp_size(int64_t key_size, int64_t nu) {
  require(nu >= 1 && nu < 2 * key_size, "dpfp: nu is {}; it must be in 1..{} for keys of size {}",
          nu, 2 * key_size - 1, key_size);
  return 2 * key_size * nu;
}

Tensor dpfp_features(const Tensor& x, int64_t nu) {
  Tensor y(x.shape().with(-1, dpfp_size(columns(x), nu)), x.dtype());
  LINEA_LAUNCH(dpfp_features, x.dtype(), x, y, num_rows(x), columns(x), nu);
  return y;
}

Tensor dpfp_features_backward(const Tensor& x, const Tensor& dy, int64_t nu) {
  Tensor dx(x.shape(), x.dtype());
  LINEA_LAUNCH(dpfp_features_backward, x.dtype(), x, dy, dx, num_rows(x), columns(x), nu);
  return dx;
}

namespace {

// Rows [BH,S,...] with one matrix [H,F,D] for each head. Error: they are not as wide as that axis.
HeadShape head_shape(const char* op, const Tensor& rows, const Tensor& matrices, int64_t first_bh,
                     int axis = 2) {
  require(rows.shape().rank() == 3 && matrices.shape().rank() == 3 &&
              rows.size(2) == matrices.size(axis),
          "{}: {} and {} do not match", op, rows.shape(), matrices.shape());
  return {rows.size(0),     rows.size(1), matrices.size(1),
          matrices.size(2), first_bh,     matrices.size(0)};
}

}  // namespace

Tensor head_matmul(const Tensor& x, const Tensor& w, int64_t first_bh, bool transpose_w,
                   double alpha, bool rounds) {
  const DType dtype = common_dtype("head_matmul", {&x, &w});
  const HeadShape heads = head_shape("head_matmul", x, w, first_bh, transpose_w ? 2 : 1);
  const GemmShape shape = heads.product(transpose_w, alpha, rounds);
  Tensor y(x.shape().with(-1, shape.cols), dtype);
  LINEA_LAUNCH(gemm, dtype, shape, x, w, y);
  return y;
}

Tensor random_logs(const Tensor& x, const Tensor& omega, int64_t first_bh, double scale) {
  const DType dtype = common_dtype("random_logs", {&x, &omega});
  const HeadShape shape = head_shape("random_logs", x, omega, first_bh);
  Tensor u(x.shape().with(-1, shape.features), dtype);
  LINEA_LAUNCH(random_logs, dtype, shape, x, omega, scale, u);
  return u;
}

Tensor random_logs_backward(const Tensor& x, const Tensor& du, const Tensor& omega,
                            int64_t first_bh, double scale) {
  const DType dtype = common_dtype("random_logs_backward", {&x, &du, &omega});
  const HeadShape shape = head_shape("random_logs_backward", x, omega, first_bh);
  require_shape("random_logs_backward", "du", du, x.shape().with(-1, shape.features));
  Tensor dx(x.shape(), dtype);
  LINEA_LAUNCH(random_logs_backward, dtype, shape, x, du, omega, scale, dx);
  return dx;
}

Tensor sine_cosine(const Tensor& u) {
  Tensor y(u.shape().with(-1, 2 * columns(u)), u.dtype());
  LINEA_LAUNCH(sine_cosine, u.dtype(), u, y, num_rows(u), columns(u));
  return y;
}

Tensor sine_cosine_backward(const Tensor& y, const Tensor& dy) {
  require_shape("sine_cosine", "dy", dy, y.shape());
  Tensor du(y.shape().with(-1, columns(y) / 2), y.dtype());
  LINEA_LAUNCH(sine_cosine_backward, common_dtype("sine_cosine", {&y, &dy}), y, dy, du,
               num_rows(du), columns(du));
  return du;
}

Tensor nearest_code(const Tensor& x, const Tensor& codebook, int64_t first_bh) {
  Tensor codes({x.size(0), x.size(1)}, DType::i32);
  LINEA_LAUNCH(nearest_code, common_dtype("nearest_code", {&x, &codebook}),
               head_shape("nearest_code", x, codebook, first_bh), x, codebook, codes);
  return codes;
}

Tensor one_hot_logs(const Tensor& codes, int64_t F, DType dtype) {
  Tensor y({codes.size(0), codes.size(1), F}, dtype);
  LINEA_LAUNCH(one_hot_logs, dtype, codes, y, codes.numel(), F);
  return y;
}

}  // namespace linea::ops
