// The interface of a feature map phi, rows of D numbers to rows of F: linear attention calls
// forward and backward on tiles, so the features of a whole sequence never exist. Maps:
// nn/feature_map.h and nn/attention/.
//
// A map may treat queries and keys differently (codebooks), may differ by head (random projections,
// codebooks), and may give logs instead of values, so that exp is only taken of differences. Several
// threads call the same map.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "autograd/var.h"
#include "tensor/kernels.h"

namespace linea {

enum class Side { query, key };

// The heads of the rows x [BH,S,D]: index bh belongs to head (first + bh) % heads.
struct HeadRange {
  int64_t first = 0, heads = 1;
};

struct Features {
  Tensor rows{};    // [BH,S,F]: values or logs, by kind()
  Tensor weight{};  // [BH,S]: the log of a weight of the whole key; undefined: 0
  Tensor codes{};   // i32 [BH,S]: the codes of hard vector quantization
};

class FeatureMap {
 public:
  virtual ~FeatureMap() = default;
  // F of D. Error: a setting of the map that does not go with this D.
  virtual int64_t features(int64_t key_size) const = 0;
  virtual FeatureKind kind() const { return FeatureKind::values; }
  virtual bool weighs_keys() const { return false; }  // gives Features::weight
  // This map inside the attention kernels, where they have it.
  virtual KernelFeature in_kernel() const { return KernelFeature::given; }
  // Whether a bf16 run may round the rows x of all passes (saved_dtype()).
  virtual bool takes_rounded() const { return in_kernel() != KernelFeature::given; }

  // Parameters of the map (a codebook, a width), in the order of `gradients`.
  virtual std::vector<Var> parameters() const { return {}; }

  virtual Features forward(const Tensor& x, Side side, const HeadRange& heads) const = 0;
  // dx [BH,S,D], given x, its features and their gradient, whose weight is undefined where it is 0.
  // The gradients of parameters are added to `gradients`, undefined where none is needed.
  virtual Tensor backward(const Tensor& x, const Features& features, const Features& gradient,
                          Side side, const HeadRange& heads,
                          const std::vector<Tensor>& gradients) const = 0;

  // Hard codes: k gets the gradient of its code (nn/attention/vq.cpp).
  virtual bool straight_through() const { return false; }
};

using FeatureMapPtr = std::shared_ptr<const FeatureMap>;

// Var::from_op with the map's parameters as further inputs: `backward` adds their gradients to
// `dparameters`, undefined where none is needed.
using FeatureBackward =
    std::function<Gradients(const Tensor& dy, const std::vector<Tensor>& dparameters)>;
Var from_feature_op(const char* op, const Tensor& value, std::vector<Var> inputs,
                    const FeatureMap& map, const FeatureBackward& backward,
                    const Tensor& saved = {});

// The features of x [B,H,N,D] on the tape, [B,H,N,F], and the log weights [B,H,N] or undefined: for
// the definitions in autograd/rules/.
struct FeatureVars {
  Var rows, weight;
};
FeatureVars apply_features(const FeatureMapPtr& map, const Var& x, Side side);

}  // namespace linea
