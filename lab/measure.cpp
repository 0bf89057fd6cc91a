#include "lab/measure.h"

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace linea::lab {

double rounded(double x, int digits) {
  return std::strtod(fmt::format("{:.{}g}", x, digits).c_str(), nullptr);
}

nlohmann::ordered_json rows_json(const Tensor& x, int digits) {
  const std::vector<double> values = x.to_doubles();
  const auto width = static_cast<size_t>(x.shape()[-1]);
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (size_t i = 0; i < values.size(); ++i) {
    if (i % width == 0) rows.push_back(nlohmann::ordered_json::array());
    rows.back().push_back(rounded(values[i], digits));
  }
  return rows;
}

nlohmann::ordered_json measure_figures(const std::string& lesson, bool) {
  nlohmann::ordered_json figures = nlohmann::ordered_json::object();
  if (lesson == "3") figures["w3"] = measure_state();
  if (lesson == "4") figures["w4"] = measure_forms();
  if (lesson == "5") figures["w5"] = measure_sweeps();
  if (lesson == "7") {
    figures["w9"] = measure_estimates();
    figures["w10"] = measure_weights();
  }
  if (lesson == "9") figures["w12"] = measure_range();
  if (lesson == "A") figures["w14"] = measure_half_lives();
  if (lesson == "B") figures["w15"] = measure_codes();
  return figures;
}

}  // namespace linea::lab
