// base/system.h, as far as the page's program reads it.
#include "base/system.h"

#include <unistd.h>

#include <cstdlib>

namespace linea {

SystemMemory installed_memory(const std::string&) {
  return {
      static_cast<size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<size_t>(sysconf(_SC_PAGE_SIZE)),
      SIZE_MAX};
}
SystemMemory container_memory(const std::string&) { return {}; }
SystemMemory process_memory() { return {}; }
void advise_huge_pages(void*, size_t) {}
std::string program_file() { return ""; }

// The library of emscripten has it for whole numbers alone.
std::from_chars_result read_double(const char* first, const char* last, double& value) {
  const std::string text(first, last);
  char* end = nullptr;
  const double number = strtod(text.c_str(), &end);
  if (end == text.c_str()) return {first, std::errc::invalid_argument};
  value = number;
  return {first + (end - text.c_str()), std::errc()};
}

}  // namespace linea
