// The random directions omega of the features that estimate softmax (Choromanski et al. 2021,
// "Rethinking attention with Performers", section 2.3; Su 2020, "Performer: how random projections
// make attention linear", kexue.fm/archives/7921, for the stratified lengths).
//
//   E over omega ~ N(0, I) of exp(omega.x - |x|^2/2) exp(omega.y - |y|^2/2) = exp(x.y)
//
// A row of omega is a length times a direction. Orthogonal rows lower the variance of the mean; so
// do lengths that are spread evenly over their distribution.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/random.h"

namespace linea {

enum class Projection {
  // Independent rows from N(0, I).
  iid,
  // Blocks of D orthogonal rows, each with the length of an independent draw from N(0, I).
  orthogonal,
  // Orthogonal directions; the lengths of the R rows are r_1 .. r_R with P_D(r <= r_i) = i / (R +
  // 1).
  stratified,
  // Orthogonal directions, all of length sqrt(D): an estimate of the paper's "regularized softmax".
  fixed_norm,
};

// iid, orthogonal, stratified, fixed-norm. Error: ErrorKind::usage for another name, with those
// that exist.
Projection parse_projection(const std::string& name);
inline std::vector<std::string> projection_names() {
  return {"iid", "orthogonal", "stratified", "fixed-norm"};
}

// omega [rows, key_size], row-major: a pure function of its arguments. The directions of the first
// rows do not depend on the number of rows; except for stratified, nor do their lengths.
std::vector<double> draw_projection(Projection projection, int64_t rows, int64_t key_size,
                                    const RandomStream& stream);

// The quantile of the length of a draw from N(0, I_D) at this probability, in (0, 1).
double length_quantile(int64_t key_size, double probability);

}  // namespace linea
