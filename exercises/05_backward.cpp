// 05: the gradients of causal linear attention, by two sweeps (lesson 5).
//
//   y_i = q_i S_i / d_i,   d_i = q_i.z_i,   S_i = sum_{j<=i} k_j^T v_j,   z_i = sum_{j<=i} k_j
//   n_i = dy_i / d_i,      e_i = -(dy_i.y_i) / d_i
//   dq_i = n_i S_i^T + e_i z_i
//   dk_j = v_j R_j^T + r_j,   dv_j = k_j R_j,   R_j = sum_{i>=j} q_i^T n_i,   r_j = sum_{i>=j} e_i q_i
//
// q, k, dq, dk: N rows of F features; v, dy, dv: N rows of M. Keep no state of each position.
#include "exercise.h"

void backward(Rows q, Rows k, Rows v, Rows dy, MutableRows dq, MutableRows dk, MutableRows dv) {
  (void)q, (void)k, (void)v, (void)dy, (void)dq, (void)dk, (void)dv;  // yours
}
