#include "cuda/emulator/symbols.h"

#include <cxxabi.h>
#include <fmt/format.h>
#include <link.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>

namespace linea::emulator {
namespace {

std::vector<char> program_file() {
  std::ifstream file("/proc/self/exe", std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

template <typename T>
const T* at(const std::vector<char>& file, size_t offset) {
  return reinterpret_cast<const T*>(file.data() + offset);
}

std::vector<Symbol> read_symbols() {
  std::vector<Symbol> result;
  const std::vector<char> file = program_file();
  if (file.size() < sizeof(ElfW(Ehdr))) return result;
  const uintptr_t base = program_image().begin;
  const auto* header = at<ElfW(Ehdr)>(file, 0);
  const auto* sections = at<ElfW(Shdr)>(file, header->e_shoff);
  // Addresses in a position-independent program are relative to its load address.
  const bool relative = header->e_type == ET_DYN;
  for (int i = 0; i < header->e_shnum; ++i) {
    const ElfW(Shdr)& section = sections[i];
    if (section.sh_type != SHT_SYMTAB) continue;
    const auto* symbols = at<ElfW(Sym)>(file, section.sh_offset);
    const char* names = at<char>(file, sections[section.sh_link].sh_offset);
    for (size_t k = 0; k < section.sh_size / sizeof(*symbols); ++k) {
      const int type = ELF64_ST_TYPE(symbols[k].st_info);
      if ((type != STT_FUNC && type != STT_TLS) || symbols[k].st_shndx == SHN_UNDEF) continue;
      const bool local = type == STT_TLS;
      result.push_back({names + symbols[k].st_name,
                        symbols[k].st_value + (local || !relative ? 0 : base), symbols[k].st_size,
                        local});
    }
  }
  return result;
}

}  // namespace

const std::vector<Symbol>& program_symbols() {
  static const std::vector<Symbol> symbols = read_symbols();
  return symbols;
}

std::string demangle(const std::string& name) {
  int status = 0;
  char* text = abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status);
  const std::string result = text != nullptr ? text : name;
  std::free(text);
  return result;
}

std::string symbol_name(const void* function) {
  const auto address = reinterpret_cast<uintptr_t>(function);
  for (const Symbol& symbol : program_symbols())
    if (!symbol.thread_local_data && symbol.address == address) return demangle(symbol.name);
  return fmt::format("{}", function);
}

ProgramImage program_image() {
  ProgramImage image;
  const auto visit = [](dl_phdr_info* info, size_t, void* result) {
    ProgramImage& found = *static_cast<ProgramImage*>(result);
    found.begin = info->dlpi_addr;
    for (int i = 0; i < info->dlpi_phnum; ++i) {
      const ElfW(Phdr)& segment = info->dlpi_phdr[i];
      if (segment.p_type == PT_LOAD)
        found.end = info->dlpi_addr + segment.p_vaddr + segment.p_memsz;
      if (segment.p_type != PT_TLS) continue;
      found.thread_begin = reinterpret_cast<uintptr_t>(info->dlpi_tls_data);
      found.thread_end = found.thread_begin + segment.p_memsz;
    }
    return 1;  // the first object is the program itself
  };
  dl_iterate_phdr(visit, &image);
  return image;
}

}  // namespace linea::emulator
