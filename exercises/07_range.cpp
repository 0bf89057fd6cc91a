// 07: causal linear attention of features that are given as logs, in float (lesson 9).
//
//   y_i = sum_{j<=i} w_ij v_j / sum_{j<=i} w_ij,   w_ij = sum_f exp(log_q_if + log_k_jf)
//
// log_q, log_k: N rows of F; v, y: N rows of M. Logs are from -1,000 to 1,000, so no exp of one may
// be taken as it is. Not a bit of y_i depends on keys after i. Time N^2 is allowed here.
#include "exercise.h"

void stable(RowsOf<const float> log_q, RowsOf<const float> log_k, RowsOf<const float> v,
            RowsOf<float> y) {
  (void)log_q, (void)log_k, (void)v, (void)y;  // yours
}
