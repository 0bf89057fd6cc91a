#include "cuda/emulator/checker/symbolizer.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "cuda/emulator/runtime/arena.h"
#include "cuda/emulator/symbols.h"

namespace linea::emulator {

void Symbolizer::refresh() {
  const ProgramImage image = program_image();
  if (thread_begin_ == image.thread_begin && end_ == image.end) return;
  begin_ = image.begin;
  end_ = image.end;
  thread_begin_ = image.thread_begin;
  thread_end_ = image.thread_end;
  shared_.clear();
  // __shared__ arrays are local variables of functions (emulator.h), whose mangled names begin with
  // _ZZ; kernel files define no other local thread-local variables.
  for (const Symbol& symbol : program_symbols())
    if (symbol.thread_local_data && symbol.name.starts_with("_ZZ"))
      shared_.push_back({thread_begin_ + symbol.address,
                         thread_begin_ + symbol.address + symbol.bytes, symbol.name});
  std::sort(shared_.begin(), shared_.end(),
            [](const auto& a, const auto& b) { return a.begin < b.begin; });
  recent_ = 0;
}

SharedArray* Symbolizer::shared_array(uintptr_t address) {
  if (recent_ >= shared_.size() || !shared_[recent_].contains(address)) {
    const auto after =
        std::upper_bound(shared_.begin(), shared_.end(), address,
                         [](uintptr_t at, const SharedArray& array) { return at < array.begin; });
    if (after == shared_.begin() || !(after - 1)->contains(address)) return nullptr;
    recent_ = static_cast<size_t>(after - 1 - shared_.begin());
  }
  return &shared_[recent_];
}

std::string Symbolizer::source_lines(uint32_t code) const {
  const uint32_t call = code - 1;  // `code` is a return address
  const std::string command =
      fmt::format("addr2line -e /proc/{}/exe -Cfpi {:#x} 2>/dev/null", getpid(), call);
  std::string lines;
  if (FILE* output = popen(command.c_str(), "r"); output != nullptr) {
    char line[1024];
    while (std::fgets(line, sizeof(line), output) != nullptr)
      lines += std::string("\n        ") + line;
    pclose(output);
  }
  while (lines.ends_with('\n')) lines.pop_back();
  for (size_t at = lines.find("\n\n"); at != std::string::npos; at = lines.find("\n\n"))
    lines.erase(at, 1);
  return lines.empty() ? fmt::format("\n        {:#x}", code) : lines;
}

std::string Symbolizer::memory_name(uintptr_t address) const {
  for (const SharedArray& array : shared_)
    if (array.contains(address))
      return fmt::format("shared array {}, byte {}", demangle(array.name), address - array.begin);
  const Arena::Allocation found = arena().find(reinterpret_cast<const void*>(address));
  if (found.data == nullptr) return fmt::format("dynamic shared memory at {:#x}", address);
  return fmt::format("global memory, byte {} of {} bytes at {}",
                     address - reinterpret_cast<uintptr_t>(found.data), found.bytes,
                     static_cast<const void*>(found.data));
}

}  // namespace linea::emulator
