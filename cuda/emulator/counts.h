// Counts of the work that a GPU does for the kernels and graphs of this process.
//
// A warp access is what the lanes of a warp access by one instruction. Here threads run one after
// another, so it is derived: the accesses of a warp's lanes at the same location (the return address
// of the instrumentation's call), each the n-th of its lane there since the lane's last barrier or
// warp operation. The limits of this definition: lanes that take a branch or a loop at different
// times form one access where a GPU may need several, and a function that g++ does not inline has
// one location for all its callers.
//
// Accesses are those of g++'s code, not of nvcc's, which may load less often or merge neighboring
// scalars. Sizes that no instruction has are split into pieces of up to 16 bytes. A cp.async counts
// as a global load and a shared store, an ldmatrix as a shared load of 16 bytes a lane. Atomics,
// local memory, arguments, constants and pinned memory do not count.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

namespace linea::emulator {

// Units are sectors of 32 bytes in global memory. In shared memory they are passes over its 32
// banks of 4 bytes: up to 4 bytes a lane the warp is served at once, of 8 bytes each half of it, of
// 16 bytes each quarter, with another pass for each further word of the same bank. Lanes that
// access the same word share it.
struct AccessCount {
  uint64_t accesses = 0;          // of warps
  uint64_t lanes = 0, bytes = 0;  // their sums over these accesses
  uint64_t units = 0;
  uint64_t min_units = 0;  // of as many adjacent, aligned bytes, or without bank conflicts
};

struct KernelCounts {
  std::string name;  // demangled
  AccessCount global_loads, global_stores, shared_loads, shared_stores;
};

// By the kernel's address. Filled while settings().counts, in programs with the checker.
std::map<const void*, KernelCounts>& kernel_counts();

// What an operation is in a graph. A product of cuBLAS is one kernel here, on a GPU sometimes two.
enum class NodeKind : uint8_t { kernel, memset, copy, other };

// The nodes of this kind in all graphs instantiated so far.
size_t& node_count(NodeKind kind);

// Writes the counts to the file when the process exits: a line for the nodes, then a line for each
// kernel and kind of access, separated by tabs.
void write_counts_at_exit(const char* file);

}  // namespace linea::emulator
