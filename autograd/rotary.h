// Rotary positions (Su 2021, "RoFormer: enhanced Transformer with rotary position embedding", section
// 3.4.2): of row i the pairs (x_d, x_{d+h}), h half of the width W, are turned by the angle
// i 10000^(-2d/W), so that products of rows i and j depend on i - j. The last number of an odd width
// stays.
#pragma once

#include "autograd/var.h"

namespace linea {

// Cosines, then sines, of the positions [first, first + count): [count,width].
Tensor rotary_table(int64_t first, int64_t count, int64_t width, DType dtype);
// Rows x [...,S,width] turned by the angles of a table [S,width], or back.
Tensor rotated(const Tensor& table, const Tensor& x, bool back = false);

// x [B,H,N,width] at the positions from `first` on.
Var rotated(const Var& x, int64_t first = 0);
// q and k of qkv [B,N,3 H D], positions from `first` on; v stays.
Var rotated_qk(const Var& qkv, int64_t heads, int64_t first);

}  // namespace linea
