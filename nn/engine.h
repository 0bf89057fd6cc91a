// The engine of linear attention:
//
//   y_i = sum_j a_ij v_j / sum_j a_ij,  a_ij = phi(q_i).phi(k_j), j <= i when causal, all j otherwise
//
// as a loop over tiles of the work, a few (batch, head) pairs by a segment of some hundred positions. A
// tile's features are made by the feature map's tensor ops and handed to the kernels of the update rule
// (tensor/kernels.h, chunk_*), which carry a state [F,M] a pair from segment to segment. The backward
// makes features and states again: one sweep forward for dq, one backward for dk and dv. Kept for it: q, k,
// v and one denominator a row. Never in memory: N x N scores, N states, features of a whole sequence.
//
// Time O(N (F M + chunk (F + M))), extra bytes O(N) scalars + O(tile). (Katharopoulos 2020, section 3.3)
#pragma once

#include "autograd/var.h"
#include "nn/feature_map.h"

namespace linea {

struct EngineOptions {
  bool causal = true;
  Tensor valid;         // i32 [B], how many keys of each sequence exist; undefined: all
  int64_t segment = 0;  // positions a tile; 0: chosen
  int64_t chunk = 0;    // rows a matrix product; 0: chosen
};

// q, k [B,H,N,D], v [B,H,N,M] -> y [B,H,N,M]. Errors: shapes or dtypes that do not go together.
Var linear_attention(const FeatureMap& map, const Var& q, const Var& k, const Var& v,
                     const EngineOptions& options);

// The recurrent form's state of fixed size: S = sum phi(k)^T v [B,H,F,M], z = sum phi(k) [B,H,F].
struct LinearState {
  Tensor state, key_sum;
};
LinearState start_linear(int64_t batch, int64_t heads, int64_t features, int64_t value_size,
                         DType dtype);
// One position for all sequences side by side: q, k [B,H,D], v [B,H,M] -> y [B,H,M]; changes the state.
Tensor linear_step(const FeatureMap& map, LinearState& state, const Tensor& q, const Tensor& k,
                   const Tensor& v);

}  // namespace linea
