// Texts of charts: how wide they are, and as elements.
#pragma once

#include <string>

namespace linea {

// About the width in the widest usual fonts: of text, of digits, of bold letters.
constexpr double kEm = 0.56, kDigitEm = 0.64, kBoldEm = 0.6;
double text_width(const std::string& text, double size, double em = kEm);

// Names of runs differ at their ends.
std::string shortened(const std::string& text, double size, double width);

// `more`: attributes, such as kInk.
std::string text_at(double x, double y, const char* anchor, const std::string& text,
                    const std::string& more);
inline constexpr const char* kInk = "class=\"ink\" fill=\"#1f2328\"";
inline constexpr const char* kMute = "class=\"mute\" fill=\"#59636e\"";

}  // namespace linea
