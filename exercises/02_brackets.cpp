// 02: linear attention in the order that costs least (lesson 2).
//
//   y_i = sum_j (q_i.k_j) v_j / sum_j (q_i.k_j)
//
// q, k: N rows of F features, all above 0; v, y: N rows of M. All positions see all keys. T counts
// its multiplications: about 2 N F (M + 1) do.
#include "exercise.h"

template <class T>
void linear(RowsOf<const T> q, RowsOf<const T> k, RowsOf<const T> v, RowsOf<T> y) {
  (void)q, (void)k, (void)v, (void)y;  // yours
}
