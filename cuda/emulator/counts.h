// Counts of the work that a GPU does for the graphs of this process.
#pragma once

#include <cstddef>
#include <cstdint>

namespace linea::emulator {

// What an operation is in a graph. A product of cuBLAS is one kernel here, on a GPU sometimes two.
enum class NodeKind : uint8_t { kernel, memset, copy, other };

// The nodes of this kind in all graphs instantiated so far.
size_t& node_count(NodeKind kind);

}  // namespace linea::emulator
