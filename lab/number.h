// Numbers of pages, each with where it comes from.
#pragma once

#include <string>

namespace linea::lab {

// 1234567 -> 1,234,567; with `decimals` digits after the point.
std::string grouped(double x, int decimals = 0);

// A number that an expression gives: tools/check_pages.py evaluates it.
std::string exact_number(const std::string& text, const std::string& expression);
// One of a document.
std::string published_number(const std::string& text, const std::string& source);
// One of a file in data/, `from` being FILE#/pointer.
std::string measured_number(const std::string& text, const std::string& from);

// The text of a caption without its elements, for the name of an image.
std::string without_elements(const std::string& html);

}  // namespace linea::lab
