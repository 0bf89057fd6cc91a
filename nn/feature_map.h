// The feature maps of linear attention by name: elementwise (elu, relu, exp, silu, identity), products
// (square), DPFP. Features of silu and identity have both signs.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "autograd/feature_map.h"

namespace linea {

// One of feature_map_names(), dpfp with nu. Error: another name, with the names that exist.
std::unique_ptr<FeatureMap> make_feature_map(const std::string& name, int64_t nu);
inline std::vector<std::string> feature_map_names() {
  return {"elu", "relu", "exp", "square", "dpfp", "silu", "identity"};
}

}  // namespace linea
