// Pieces of this program's own sources, cut out by name, for the lessons.
#pragma once

#include <string>

namespace linea::lab {

// The definition of the function `name` in a C++ source formatted as this project's are, with the
// comment above it; "head": the comment that begins the file. Error: ErrorKind::input, there is no
// such definition.
std::string excerpt(const std::string& source, const std::string& name);

}  // namespace linea::lab
