// What tools/check_pages.py says of a lab.
#pragma once

#include <cstdlib>
#include <string>

#include "tests/cli/program.h"

namespace linea {

// Empty where it finds nothing, or there is no Python.
inline std::string lab_findings(const std::string& lab) {
  const std::string out = lab + ".findings";
  const std::string command = "command -v python3 >/dev/null || exit 0; python3 " LINEA_SOURCE
                              "/tools/check_pages.py " +
                              lab + " >" + out + " 2>&1";
  return std::system(command.c_str()) == 0 ? "" : read_file(out);
}

}  // namespace linea
