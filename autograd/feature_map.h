// Feature maps phi: rows of D numbers to rows of F, the half of linear attention that tells one
// kind from another. The engine calls forward and backward on tiles, so features never exist for a
// whole sequence.
//
// A map may give the features of a query and of a key differently (codebooks), may have something
// of its own for each head (random projections, codebooks), and may give logs instead of values:
// exp of large numbers is then only ever taken of differences.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "autograd/var.h"
#include "tensor/kernels.h"

namespace linea {

enum class Side { query, key };

// The (batch, head) pairs that rows belong to: pair p of x [P,S,D] is of the head (first + p) %
// heads.
struct PairRange {
  int64_t first = 0, heads = 1;
};

struct Features {
  Tensor rows{};    // [P,S,F]: values, or logs, as kind() says
  Tensor weight{};  // [P,S]: the log of a weight of the key as a whole; undefined: none
  Tensor codes{};   // i32 [P,S]: of hard codes, which the rows mark
};

class FeatureMap {
 public:
  virtual ~FeatureMap() = default;
  // F of D. Error: a setting of the map that keys of this size cannot have.
  virtual int64_t features(int64_t key_size) const = 0;
  virtual FeatureKind kind() const { return FeatureKind::values; }
  virtual bool weighs_keys() const { return false; }  // gives Features::weight
  // The same map made by an attention's own kernels, row by row, where they can.
  virtual KernelFeature in_kernel() const { return KernelFeature::given; }

  // What changes the features and may ask for a gradient (a codebook, a width); in the order of
  // `gradients`.
  virtual std::vector<Var> parameters() const { return {}; }

  virtual Features forward(const Tensor& x, Side side,
                           const PairRange& pairs) const = 0;  // x [P,S,D]
  // dx [P,S,D] of the gradients of what forward made of x, `made`. A parameter's is added to
  // `gradients`, undefined where it is not asked for.
  virtual Tensor backward(const Tensor& x, const Features& made, const Features& gradient,
                          Side side, const PairRange& pairs,
                          const std::vector<Tensor>& gradients) const = 0;

  // Hard codes: the engine gives k the gradient of its code, straight through
  // (nn/attention/vq.cpp).
  virtual bool straight_through() const { return false; }
};

// Zeros to add the gradients of a map's parameters to, undefined where none is asked for.
std::vector<Tensor> zero_gradients(const std::vector<Var>& parameters);

// All features of x [B,H,N,D] on the tape, [B,H,N,F]; and the log weights [B,H,N], undefined where
// there are none: for the quadratic forms.
struct FeatureVars {
  Var rows, weight;
};
FeatureVars apply_features(const std::shared_ptr<const FeatureMap>& map, const Var& x, Side side);

}  // namespace linea
