#include "cuda/emulator/counts.h"

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>

namespace linea::emulator {
namespace {

std::string g_file;

void write_counts() {
  FILE* file = std::fopen(g_file.c_str(), "w");
  if (file == nullptr) return std::perror(g_file.c_str());
  fmt::print(file, "graphs: {} kernels, {} memsets, {} copies\n", node_count(NodeKind::kernel),
             node_count(NodeKind::memset), node_count(NodeKind::copy));
  fmt::print(file, "kernel\taccess\taccesses\tlanes\tbytes\tunits\tmin_units\n");
  for (const auto& [kernel, counts] : kernel_counts()) {
    const std::pair<const char*, const AccessCount&> kinds[] = {
        {"global load", counts.global_loads},
        {"global store", counts.global_stores},
        {"shared load", counts.shared_loads},
        {"shared store", counts.shared_stores}};
    for (const auto& [kind, count] : kinds)
      if (count.accesses != 0)
        fmt::print(file, "{}\t{}\t{}\t{}\t{}\t{}\t{}\n", counts.name, kind, count.accesses,
                   count.lanes, count.bytes, count.units, count.min_units);
  }
  std::fclose(file);
}

}  // namespace

std::map<const void*, KernelCounts>& kernel_counts() {
  static std::map<const void*, KernelCounts> instance;
  return instance;
}

size_t& node_count(NodeKind kind) {
  static size_t counts[4] = {};
  return counts[static_cast<size_t>(kind)];
}

void write_counts_at_exit(const char* file) {
  kernel_counts();  // constructed before, so destroyed after the counts are written
  g_file = file;
  std::atexit(write_counts);
}

}  // namespace linea::emulator
