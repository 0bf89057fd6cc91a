#include "cuda/emulator/counts.h"

namespace linea::emulator {

size_t& node_count(NodeKind kind) {
  static size_t counts[4] = {};
  return counts[static_cast<size_t>(kind)];
}

}  // namespace linea::emulator
