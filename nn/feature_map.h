// Feature maps phi: rows of D numbers to rows of F, the half of linear attention that tells one kind from
// another. The engine calls forward and backward on tiles, so features never exist for a whole sequence.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "autograd/var.h"

namespace linea {

class FeatureMap {
 public:
  virtual ~FeatureMap() = default;
  // F of D. Error: a setting of the map that keys of this size cannot have.
  virtual int64_t features(int64_t key_size) const = 0;
  virtual Tensor forward(const Tensor& x) const = 0;                          // [...,D] -> [...,F]
  virtual Tensor backward(const Tensor& x, const Tensor& dphi) const = 0;     // -> dx [...,D]
  // The whole of phi(x) on the tape, for the quadratic form.
  Var apply(const Var& x) const;
};

// elu, relu, exp, square, dpfp (with nu). Error: another name, with the names that exist.
std::unique_ptr<FeatureMap> make_feature_map(const std::string& name, int64_t nu);
std::vector<std::string> feature_map_names();

}  // namespace linea
