// The numbers of figures that no command of a lesson prints, measured by the functions that compute
// attention. Each is an object for `figures` of the lesson's record.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "tensor/tensor.h"

namespace linea::lab {

// For the figures of the lesson with this number or letter; `quick`: smaller ones.
nlohmann::ordered_json measure_figures(const std::string& lesson, bool quick);

nlohmann::ordered_json measure_state();   // W3
nlohmann::ordered_json measure_forms();   // W4
nlohmann::ordered_json measure_sweeps();  // W5
// measure_features.cpp
nlohmann::ordered_json measure_estimates();   // W9
nlohmann::ordered_json measure_weights();     // W10
nlohmann::ordered_json measure_range();       // W12
nlohmann::ordered_json measure_half_lives();  // W14
nlohmann::ordered_json measure_codes();       // W15

using Rows = std::vector<std::vector<double>>;
Rows split_rows(const std::vector<double>& values, int64_t width);
double dot(const std::vector<double>& a, const std::vector<double>& b);
// Rounded to `digits` significant digits; of a tensor, rows of the last axis.
nlohmann::ordered_json rows_json(const Rows& rows, int digits = 7);
nlohmann::ordered_json rows_json(const Tensor& x, int digits = 7);
double rounded(double x, int digits);

}  // namespace linea::lab
