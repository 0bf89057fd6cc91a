#include "lab/measure.h"

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/error.h"

namespace linea::lab {

double rounded(double x, int digits) {
  return std::strtod(fmt::format("{:.{}g}", x, digits).c_str(), nullptr);
}

Rows split_rows(const std::vector<double>& values, int64_t width) {
  Rows rows;
  for (auto first = values.begin(); first != values.end(); first += width)
    rows.emplace_back(first, first + width);
  return rows;
}

double dot(const std::vector<double>& a, const std::vector<double>& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

nlohmann::ordered_json rows_json(const Rows& rows, int digits) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const std::vector<double>& row : rows) {
    all.push_back(nlohmann::ordered_json::array());
    for (const double x : row) all.back().push_back(rounded(x, digits));
  }
  return all;
}

nlohmann::ordered_json rows_json(const Tensor& x, int digits) {
  return rows_json(split_rows(x.to_doubles(), x.shape()[-1]), digits);
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
