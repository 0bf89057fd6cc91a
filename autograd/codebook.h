// Ops of hard vector quantization (nn/attention/vq.cpp): z = argmin_f |k - c_f|^2, codes c [H,F,D].
#pragma once

#include "autograd/var.h"

namespace linea {

// y = c_z;  dk = dy: the gradient passes straight through. k [B,H,N,D]
Var quantize(const Var& k, const Tensor& codebook);

// L = beta mean |k - sg(c_z)|^2, and of a codebook that requires a gradient + mean |sg(k) - c_z|^2;
// with the number [H,F] and the sum [H,F,D] of the keys of each code.
struct Commitment {
  Var loss;
  Tensor counts, sums;
};
Commitment commitment_loss(const Var& k, const Var& codebook, double beta);

}  // namespace linea
