// The random directions omega of the features that estimate softmax (Choromanski et al. 2021,
// "Rethinking attention with Performers", section 2.3; Su 2020, "Performer: how random projections
// make attention linear", kexue.fm/archives/7921, for the stratified lengths).
//
//   E over omega ~ N(0, I) of exp(omega.x - |x|^2/2) exp(omega.y - |y|^2/2) = exp(x.y)
//
// A row of omega is a length times a direction. Rows at right angles to each other lower the
// variance of the mean; so do lengths that are spread evenly over their distribution.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tensor/random.h"

namespace linea {

enum class Projection {
  iid,         // every row by itself from N(0, I)
  orthogonal,  // blocks of D rows at right angles, each row with the length of another draw from
               // N(0, I)
  stratified,  // the same directions; the lengths of all R rows are r_1 .. r_R with P_D(r <= r_i) =
               // i / (R + 1)
  fixed_norm,  // the same directions, every length sqrt(D): an estimate of the paper's "regularized
               // softmax"
};

// iid, orthogonal, stratified, fixed-norm. Error: ErrorKind::usage for another name, with those
// that exist.
Projection projection_of(const std::string& name);
const std::vector<std::string>& projection_names();

// omega [rows, key_size], row-major: a pure function of its arguments. The directions of the first
// rows do not depend on how many follow, nor do the rows of iid, orthogonal and fixed_norm as a
// whole.
std::vector<double> draw_projection(Projection projection, int64_t rows, int64_t key_size,
                                    const RandomStream& stream);

// The r below which the length of a draw from N(0, I_D) is with this probability, in (0, 1).
double length_quantile(int64_t key_size, double probability);

}  // namespace linea
