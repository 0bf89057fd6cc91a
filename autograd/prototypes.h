// Queries in clusters. Each cluster has a prototype, the mean of its queries, which reads the keys for all of
// them:
//
//   p_c = sum_{i in c} q_i / n_c,  y_i = sum_j a_cj v_j,  a_c = softmax_j(p_c.k_j / sqrt(D)),  c = c(i)
//
// c(i) is a constant for the gradient; clusters [B,H,N] are i32 from 0 to count - 1, -1 for a query in none.
// Source: Vyas et al. 2020, "Fast Transformers with clustered attention", section 3.
#pragma once

#include "autograd/sparse_attention.h"

namespace linea {

// q [B,H,N,D] -> p [B,H,count,D], 0 for an empty cluster.
Var cluster_means(const Var& q, const Tensor& clusters, int64_t count);
// p without gradient, of q rounded to float32: for decisions.
Tensor rounded_cluster_means(const Tensor& q, const Tensor& clusters, int64_t count);

// x_{c(i)} for each i, x [B,H,C,W] -> [B,H,N,W]; 0 in no cluster.
Var rows_of_clusters(const Var& x, const Tensor& clusters);

// The keys of the `count` largest p_c.k_j, i32 [B,H,C,count] in order, -1 where there are fewer. For decide().
Tensor prototype_keys(const Tensor& p, const Tensor& k, const Tensor& valid, int64_t count);

// With keys T_c of each cluster, i32 [B,H,C,K] and -1 where there are fewer, and `sets`: what each i reads, T_c(i):
//
//   y_i = sum_{j not in T_c} a_cj v_j + m_c sum_{j in T_c} b_ij v_j,  m_c = sum_{j in T_c} a_cj
//
// b_i = softmax_j(q_i.k_j / sqrt(D)) over T_c. in: q, k [B,H,N,D], v [B,H,N,M]; p [B,H,C,D]; valid as in
// AttentionMask -> [B,H,N,M], 0 in no cluster. Saved: sum_j b_ij v_j, and two numbers a position.
Var cluster_attention(const AttentionInputs& in, const Var& p, const Tensor& clusters,
                      const Tensor& keys, const KeyTilesOf& sets, const Tensor& valid);

}  // namespace linea
