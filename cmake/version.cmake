# Writes OUTPUT, the source of linea::version(): VERSION and the commit of the checkout SOURCE. Runs at every build as a
# script (cmake -P); the file changes only with the commit.
set(version ${VERSION})
if(EXISTS ${SOURCE}/.git)
  execute_process(COMMAND git -C ${SOURCE} describe --always --exclude=* --abbrev=7 --dirty
    OUTPUT_VARIABLE commit ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(commit)
    string(APPEND version " (${commit})")
  endif()
endif()
file(CONFIGURE OUTPUT ${OUTPUT} CONTENT [[
#include "cli/program.h"

namespace linea {
std::string version() { return "@version@"; }
}  // namespace linea
]] @ONLY)
