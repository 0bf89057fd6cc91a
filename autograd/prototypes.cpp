#include "autograd/prototypes.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "tensor/launch.h"
#include "tensor/ops.h"

namespace linea {
namespace {

// body(bh, cluster of each row) for all batch heads.
template <typename Body>
void each_head(const Tensor& clusters, const Body& body) {
  const int64_t N = clusters.size(2);
  on_threads(clusters.size(0) * clusters.size(1),
             [&](int64_t bh, int) { body(bh, clusters.data<int32_t>() + bh * N); });
}

// body(i, c) of the rows i of [B H,N] that are in a cluster, row c of [B H,C]: of a head in order, by one
// thread.
template <typename Body>
void each_row(const Tensor& clusters, int64_t C, const Body& body) {
  each_head(clusters, [&, N = clusters.size(2)](int64_t bh, const int32_t* own) {
    for (int64_t i = 0; i < N; ++i)
      if (own[i] >= 0) body(bh * N + i, bh * C + own[i]);
  });
}

// The means of rows x, which are summed in double; `rounds`: of x rounded to float32.
template <typename T>
Tensor means_of(const Tensor& x, const Tensor& clusters, int64_t C, bool rounds) {
  const int64_t N = x.size(2), D = x.size(3);
  const Tensor means(x.shape().with(2, C), x.dtype());
  each_head(clusters, [&](int64_t bh, const int32_t* own) {
    std::vector<double> sums(static_cast<size_t>(C * D)), sizes(static_cast<size_t>(C));
    for (int64_t i = 0; i < N; ++i) {
      if (own[i] < 0) continue;
      ++sizes[static_cast<size_t>(own[i])];
      const T* const from = x.data<T>() + (bh * N + i) * D;
      double* const sum = sums.data() + own[i] * D;
      for (int64_t d = 0; d < D; ++d)
        sum[d] += rounds ? static_cast<double>(static_cast<float>(from[d]))
                         : static_cast<double>(from[d]);
    }
    for (int64_t at = 0; at < C * D; ++at) {
      const double size = sizes[static_cast<size_t>(at / D)];
      means.data<T>()[bh * C * D + at] =
          size == 0 ? T(0) : static_cast<T>(sums[static_cast<size_t>(at)] / size);
    }
  });
  return means;
}

// Row c(i) of x [B,H,C,W] for each i, 0 in no cluster; `mean`: over the number of rows with that cluster.
template <typename T>
Tensor gather(const Tensor& x, const Tensor& clusters, bool mean) {
  const int64_t C = x.size(2), W = x.size(3);
  const Tensor y = Tensor::zeros(x.shape().with(2, clusters.size(2)), x.dtype());
  std::vector<T> sizes(static_cast<size_t>(x.shape().product(0, 3)), mean ? T(0) : T(1));
  if (mean) each_row(clusters, C, [&](int64_t, int64_t c) { ++sizes[static_cast<size_t>(c)]; });
  each_row(clusters, C, [&](int64_t i, int64_t c) {
    const T size = sizes[static_cast<size_t>(c)];
    const T* const from = x.data<T>() + c * W;
    T* const to = y.data<T>() + i * W;
    for (int64_t w = 0; w < W; ++w) to[w] = from[w] / size;
  });
  return y;
}

}  // namespace

// p_c = sum_{i in c} q_i / n_c;  dq_i = dp_c / n_c
Var cluster_means(const Var& q, const Tensor& clusters, int64_t count) {
  return with_real(q.dtype(), "cluster_means", [&](auto zero) {
    using T = decltype(zero);
    return Var::from_op("cluster_means", means_of<T>(q.value(), clusters, count, false), {q},
                        [clusters](const Tensor& dp) { return gather<T>(dp, clusters, true); });
  });
}

Tensor rounded_cluster_means(const Tensor& q, const Tensor& clusters, int64_t count) {
  return with_real(q.dtype(), "cluster_means",
                   [&](auto zero) { return means_of<decltype(zero)>(q, clusters, count, true); });
}

// y_i = x_c(i);  dx_c = sum_{i in c} dy_i
Var rows_of_clusters(const Var& x, const Tensor& clusters) {
  return with_real(x.dtype(), "rows_of_clusters", [&](auto zero) {
    using T = decltype(zero);
    return Var::from_op("rows_of_clusters", gather<T>(x.value(), clusters, false), {x},
                        [clusters, shape = x.shape()](const Tensor& dy) {
                          const int64_t W = shape[3];
                          const Tensor dx = Tensor::zeros(shape, dy.dtype());
                          each_row(clusters, shape[2], [&](int64_t i, int64_t c) {
                            const T* const from = dy.data<T>() + i * W;
                            T* const to = dx.data<T>() + c * W;
                            for (int64_t w = 0; w < W; ++w) to[w] += from[w];
                          });
                          return dx;
                        });
  });
}

namespace {

SoftmaxShape over_all(const HeadTensor& p, const HeadTensor& k, int64_t values,
                      const Tensor& valid) {
  return {attention_shape(p, k, values, valid), {.first = -p.length, .end = k.length}};
}

// `count` + 1 keys a query, which are those of a list.
TopKeysShape over_list(const HeadTensor& p, const HeadTensor& k, int64_t values,
                       const Tensor& valid, int64_t count) {
  return {attention_shape(p, k, values, valid), count, false};
}

// x [B,H,N,W] in another width: columns left out, or 0 added.
Tensor in_width(const Tensor& x, int64_t width) {
  const Tensor y = Tensor::zeros(x.shape().with(-1, width), x.dtype());
  LINEA_LAUNCH(copy_rows, x.dtype(), HeadTensor(x), HeadTensor(y), x.size(0) * x.size(1), x.size(2),
               std::min(width, x.size(3)));
  return y;
}

// y of all keys and of the keys of a list, each with its log sum l.
struct Prototypes {
  Tensor p, k, v, valid, list;
  Tensor y, l, listed_y, listed_l;

  void compute() {
    const SoftmaxShape shape = over_all(p, k, v.size(3), valid);
    y = Tensor(p.shape().with(-1, v.size(3)), p.dtype());
    l = Tensor({shape.batch_heads, shape.queries}, p.dtype());
    LINEA_LAUNCH(softmax_attention, p.dtype(), shape, Heads{p, k, v}, HeadTensor(y), l);
    listed_y = Tensor(y.shape(), p.dtype());
    listed_l = Tensor(l.shape(), p.dtype());
    LINEA_LAUNCH(listed_attention, p.dtype(), over_list(p, k, v.size(3), valid, list.size(3) - 1),
                 Heads{p, k, v}, list, HeadTensor(listed_y), listed_l);
  }

  // log m_c
  template <typename T>
  T log_share(int64_t row) const {
    return listed_l.data<T>()[row] - l.data<T>()[row];
  }
  template <typename T>
  T share(int64_t row) const {
    return std::exp(log_share<T>(row));
  }

  // [y - m listed_y, m]
  template <typename T>
  Tensor rest() const {
    const int64_t M = y.size(3);
    const Tensor result(y.shape().with(-1, M + 1), y.dtype());
    for (int64_t row = 0; row < l.numel(); ++row) {
      const T m_c = share<T>(row);
      T* const to = result.data<T>() + row * (M + 1);
      for (int64_t m = 0; m < M; ++m)
        to[m] = y.data<T>()[row * M + m] - m_c * listed_y.data<T>()[row * M + m];
      to[M] = m_c;
    }
    return result;
  }

  // A column that is 0 in v, -1 in y and dl in dy makes the kernels' dy.v - dy.y a dy.v - dy.y + dl:
  // the gradient dl of the log sum reaches p and k. With r = y - m t, t = listed_y, log m = l_t - l:
  //   dt = -m dr,  dl_t = -dl = m (dm - dr.t)
  template <typename T>
  Heads wide_gradients(const Tensor& drest) const {
    const int64_t M = y.size(3), W = M + 1;
    const Tensor wide_v = in_width(v, W), wide_y = in_width(y, W), wide_t = in_width(listed_y, W),
                 dy = drest.clone(), dt(drest.shape(), drest.dtype());
    for (int64_t row = 0; row < l.numel(); ++row) {
      const T* const dr = drest.data<T>() + row * W;
      const T* const t = listed_y.data<T>() + row * M;
      T* const to = dt.data<T>() + row * W;
      const T m_c = share<T>(row);
      T inner = 0;
      for (int64_t m = 0; m < M; ++m) {
        inner += dr[m] * t[m];
        to[m] = -m_c * dr[m];
      }
      to[M] = m_c * (dr[M] - inner);
      dy.data<T>()[row * W + M] = -to[M];
      wide_y.data<T>()[row * W + M] = wide_t.data<T>()[row * W + M] = -1;
    }
    const Heads given{p, k, wide_v}, all = given.new_gradients(p.dtype());
    LINEA_LAUNCH(softmax_attention_backward, p.dtype(), over_all(p, k, W, valid), given,
                 HeadTensor(wide_y), l, HeadTensor(dy), all);
    TopKeysShape shape = over_list(p, k, W, valid, list.size(3) - 1);
    shape.adds = true;
    LINEA_LAUNCH(listed_attention_backward, p.dtype(), shape, given, list, HeadTensor(wide_t),
                 listed_l, HeadTensor(dt), all);
    return all;
  }

  // dp, dk and dv, given those of rest(). The wide tensors are gone before dv is made.
  template <typename T>
  Heads rest_gradients(const Tensor& drest) const {
    const Heads wide = wide_gradients<T>(drest);
    return {wide.q, wide.k, in_width(wide.v.data, y.size(3))};
  }
};

}  // namespace

// y_i = rest_c + m_c x_i, x_i = sum_j b_ij v_j:  drest_c = sum_{i in c} dy_i, dm_c = sum_{i in c} dy_i.x_i. With
// m_c b_ij in place of b_ij, whose log sum is l_i - log m_c, those of q, k and v in x_i are those of softmax
// attention, given dy. Formulas: tensor/cpu/softmax_attention.cpp, top_keys.cpp, sparse_attention.cpp.
Var cluster_attention(const AttentionInputs& in, const Var& p, const Tensor& clusters,
                      const Tensor& keys, const KeyTilesOf& sets, const Tensor& valid) {
  return with_real(p.dtype(), "cluster_attention", [&](auto zero) {
    using T = decltype(zero);
    const Heads heads = Heads::of(in);
    const Tensor v = in.v.value(), x(v.shape(), v.dtype()), y = Tensor::zeros(v.shape(), v.dtype());
    const int64_t C = p.size(2), M = v.size(3);
    const Tensor log_sums({v.size(0) * v.size(1), v.size(2)}, v.dtype());
    read_sets(heads, valid, sets, x, log_sums);
    Prototypes of{p.value(), in.k.value(), v, valid, keys, {}, {}, {}, {}};
    of.compute();
    const Tensor rest = of.rest<T>();
    each_row(clusters, C, [&](int64_t i, int64_t c) {
      const T* const r = rest.data<T>() + c * (M + 1);
      for (int64_t m = i * M; m < (i + 1) * M; ++m)
        y.data<T>()[m] = r[m - i * M] + r[M] * x.data<T>()[m];
      log_sums.data<T>()[i] -= of.log_share<T>(c);
    });
    return Var::from_op(
        "cluster_attention", y, {in.q, p, in.k, in.v}, [=](const Tensor& dy) -> Gradients {
          const Tensor drest = Tensor::zeros(rest.shape(), dy.dtype());
          each_row(clusters, C, [&](int64_t i, int64_t c) {
            T* const to = drest.data<T>() + c * (M + 1);
            for (int64_t m = i * M; m < (i + 1) * M; ++m) {
              to[m - i * M] += dy.data<T>()[m];
              to[M] += dy.data<T>()[m] * x.data<T>()[m];
            }
          });
          const Heads of_p = of.rest_gradients<T>(drest);
          const Tensor dq = Tensor::zeros(heads.q.data.shape(), dy.dtype());
          read_sets_backward(heads, valid, sets, x, log_sums, dy, {dq, of_p.k, of_p.v});
          return {dq, of_p.q.data, of_p.k.data, of_p.v.data};
        });
  });
}

Tensor prototype_keys(const Tensor& p, const Tensor& k, const Tensor& valid, int64_t count) {
  const int64_t B = p.size(0), N = k.size(2);
  const Tensor existing = Tensor::from(AttentionMask{false, valid}.lengths(B, N), {B});
  TopKeysShape shape = over_list(p, k, 1, existing, count);
  shape.keys = N + shape.queries;  // positions of queries are none of keys
  const Tensor chosen(p.shape().with(-1, count + 1), DType::i32);
  LINEA_LAUNCH(top_keys, p.dtype(), shape, HeadTensor(p), HeadTensor(k), chosen);
  const Tensor result(p.shape().with(-1, count), DType::i32);  // without the last, which is -1
  for (int64_t row = 0; row < result.numel() / count; ++row)
    std::copy_n(chosen.data<int32_t>() + row * (count + 1), count,
                result.data<int32_t>() + row * count);
  return result;
}

}  // namespace linea
