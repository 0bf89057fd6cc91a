// Parameters by name, in the order in which a model lists them: what optimizers and checkpoints
// see.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "autograd/var.h"

namespace linea {

struct Parameter {
  std::string name;  // "blocks.0.out.weight"
  Var var;
  bool optional = false;  // takes no number of ParameterInit's streams
  int64_t matrices = 0;   // stacked in its rows (qkv: 3), for Muon; 0: not a block matrix
};
using Parameters = std::vector<Parameter>;

constexpr double kInitStd = 0.02;  // GPT-2's (Radford 2019)

// Creates a model's parameters and appends them to its list. Each has a stream of random numbers of
// its own: streams 0, 1, 2, ... in the order of creation, whether the parameter uses it or is
// constant. An optional parameter takes the stream of its name instead: a model with it and one
// without it start from the same values elsewhere.
class ParameterInit {
 public:
  ParameterInit(Parameters& list, uint64_t seed) : list_(list), seed_(seed) {}

  // N(0, stddev^2), or a constant; f32.
  Var normal(const std::string& name, const Shape& shape, double stddev, bool optional = false,
             int64_t matrices = 0);
  Var constant(const std::string& name, const Shape& shape, double value, bool optional = false);
  // A parameter with values of its own.
  void add(Parameter parameter);

 private:
  Parameters& list_;
  uint64_t seed_;
  uint32_t next_stream_id_ = 0;
};

int64_t count_elements(const Parameters& list);

}  // namespace linea
