// Proof of a gradient: backward() against finite differences in double, with a random cotangent.
#pragma once

#include <functional>
#include <vector>

#include "autograd/var.h"

namespace linea {

using Function = std::function<Var(const std::vector<Var>&)>;

// Test data: draws of N(0, stddev^2) in f64 or f32, at least `away` from zero, where relu and
// elu + 1 have their kinks.
Tensor random_tensor(const Shape& shape, uint32_t stream_id, double stddev = 1.0,
                     double away = 1e-3, DType dtype = DType::f64);

struct GradcheckResult {
  double error = 0;      // max over the inputs of max|analytic - numeric| / max|numeric|
  int worst_input = -1;  // the input with this error
};

// Checks the gradients of cotangent . f(inputs), element by element, against the five-point
// difference with step 4e-4 (within 1e-3 of each point). The error of a gradient whose largest
// element is below 1e-3 is relative to 1e-3.
GradcheckResult gradcheck(const Function& f, const std::vector<Tensor>& inputs,
                          uint32_t stream_id = 999);
// Checks f(), which reads these leaves, in the same way; worst_input is an index of `leaves`.
GradcheckResult gradcheck_leaves(const std::function<Var()>& f, std::vector<Var> leaves,
                                 uint32_t stream_id = 999);

// max|a - b| / max(max|b|, min); the absolute error where that is 0.
double relative_error(const Tensor& a, const Tensor& b, double min = 0);

}  // namespace linea
