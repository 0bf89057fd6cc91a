// Ops of attention that compresses N positions to m slots, nn/attention/: products with parameters of
// heads, which all sequences share, and what follows from them. x is [B,H,N,C]; `valid` as in AttentionMask.
#pragma once

#include "autograd/var.h"

namespace linea {

// x [H,m,C] -> [count,H,m,C], the same numbers `count` times.
Var repeat(const Var& x, int64_t count);
// The matrices w [H,C,K] of heads: y_bh = x_bh w_h, [B,H,N,K].
Var head_matmul(const Var& x, const Var& w);
// w [H,R,m], or [1,R,m] for all heads, R >= N: y_bh = w_h^T x_bh, [B,H,m,C], by the first N rows of w.
Var mix_rows(const Var& x, const Var& w);

// The m segments of the L valid rows of a sequence, segment c = rows [c L / m, (c + 1) L / m): their means,
// [B,H,m,C], 0 where there is no row.
Var segment_means(const Var& x, int64_t segments, const Tensor& valid);
// Z = A^T / n of matrices A [...,m,m], n the largest sum of a column, of equals the first.
Var transpose_over_norm(const Var& a);
// y_n = sum_t w_ht x_{n + t - T/2} over the valid rows of x, w [H,T], T odd: [B,H,N,C].
Var centered_convolution(const Var& x, const Var& w, const Tensor& valid);

}  // namespace linea
