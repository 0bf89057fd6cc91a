// Formulas as the lessons write them, in letters of a terminal, as MathML with their TeX:
//
//   S_t = S_{t-1} + phi(k_t)^T v_t      x^ = x / D^{1/4}      sum_{t<j<=i} a_ij v_j
//
// `_` and `^` take letters and digits, or what is in braces or brackets; x^ before a blank is x with
// a hat, and ^T a transpose; a product is written by blanks or " . "; "/" divides the whole product
// before it by the whole product after it; dx is a gradient. Names of functions and Greek letters
// are spelled; other words are text.
#pragma once

#include <string>

namespace linea::lab {

struct Formula {
  std::string mathml, tex;  // the content of <mrow>
};

// `display`: "/" is a fraction with a line.
Formula parse_formula(const std::string& text, bool display);
// A <math> element.
std::string math_element(const std::string& text, bool display);

}  // namespace linea::lab
