// What each operating system does in its own way: base/system_linux.cpp and base/system_macos.cpp,
// of which CMake compiles one.
#pragma once

#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

struct stat;
struct timespec;

namespace linea {

// A path that opens this program's file, on Linux also after another has taken its name.
std::string program_file();
std::filesystem::path program_folder();
// The words of the command line.
std::vector<std::string> command_line();

// As its maker names it; "unknown processor".
std::string processor_name();
// The cores that this process may use, as text; "" where the system has no such choice.
std::string core_mask();
// Asks the system for the registers of AMX, which take space in every thread.
bool allow_tile_registers();
// Whether a processor of ARM64 has BFMMLA.
bool has_bfmmla();

// Bytes. `available`: what can be taken yet, files in the cache of pages being no obstacle;
// SIZE_MAX: not known, or no limit.
struct SystemMemory {
  size_t total = SIZE_MAX, available = SIZE_MAX;
};
// What the machine has. `root`: a folder with the system's files, of tests.
SystemMemory installed_memory(const std::string& root = "");
// The control group (container) with the least available memory, from the group of this process up
// to the root.
SystemMemory container_memory(const std::string& root = "");
// The limit on this process's address space (ulimit -v).
SystemMemory process_memory();
// The most that this process has had in memory. Error: ErrorKind::input, the system does not say.
size_t peak_resident_bytes();
// A hint, which nothing depends on.
void advise_huge_pages(void* block, size_t bytes);

// How often the system took the core from this thread.
int64_t count_thread_preemptions();

// Each returns 0, or -1 with errno.

// Both ends are closed in programs that this one starts.
int open_pipe(std::array<int, 2>& ends);
// Until the bytes of a file are on the disk.
int flush_file(int descriptor);
// Exchanges the names of two files or folders. EINVAL, ENOSYS: the file system cannot.
int exchange_files(const std::filesystem::path& one, const std::filesystem::path& other);

timespec modification_time(const struct stat& facts);

// std::from_chars of a double, which Apple's standard library got late.
std::from_chars_result read_double(const char* first, const char* last, double& value);

}  // namespace linea
