// The text of --help.
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace linea {

// Wrapped to 100 columns or the terminal's, if fewer; the lines of an option continue under its
// description.
std::string help_text(const CLI::App& command);

}  // namespace linea
