// Queries in clusters. Each cluster has a prototype, the mean of its queries, which reads the keys for all of
// them:
//
//   p_c = sum_{i in c} q_i / n_c,  y_i = sum_j a_cj v_j,  a_c = softmax_j(p_c.k_j / sqrt(D)),  c = c(i)
//
// c(i) is a constant for the gradient; clusters [B,H,N] are i32 from 0 to count - 1, -1 for a query in none.
// Source: Vyas et al. 2020, "Fast Transformers with clustered attention", section 3.
#pragma once

#include "autograd/var.h"

namespace linea {

// q [B,H,N,D] -> p [B,H,count,D], 0 for an empty cluster.
Var cluster_means(const Var& q, const Tensor& clusters, int64_t count);
// p without gradient, of q rounded to float32: for decisions.
Tensor rounded_cluster_means(const Tensor& q, const Tensor& clusters, int64_t count);

// x_{c(i)} for each i, x [B,H,C,W] -> [B,H,N,W]; 0 in no cluster.
Var rows_of_clusters(const Var& x, const Tensor& clusters);

// p [B,H,C,D], k [B,H,N,D], v [B,H,N,M], keys T_c, i32 [B,H,C,K] and -1 where there are fewer -> [B,H,C,M+1]: the
// sum of a_cj v_j over the keys that exist and are not in T_c, and m_c = the sum of a_cj over j in T_c; valid as in
// AttentionMask.
Var rest_attention(const Var& p, const Var& k, const Var& v, const Tensor& valid,
                   const Tensor& keys);

// The keys of the `count` largest p_c.k_j, i32 [B,H,C,count] in order, -1 where there are fewer. For decide().
Tensor prototype_keys(const Tensor& p, const Tensor& k, const Tensor& valid, int64_t count);

// y_i = rest_c + m_c x_i, c = c(i), of rest and m as rest_attention gives them, x [B,H,N,M]; 0 in no
// cluster.
Var add_to_rest(const Var& rest, const Var& x, const Tensor& clusters);

}  // namespace linea
