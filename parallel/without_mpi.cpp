// A program that was built without MPI.
#include "parallel/launch.h"

namespace linea {

std::unique_ptr<Transport> start_transport() { return nullptr; }
std::string message_library() { return ""; }

}  // namespace linea
