// What base/system_macos.cpp takes of Apple's headers, by their public documentation:
// tools/check-macos.sh compiles the file with it on Linux.
#pragma once

#include <locale.h>
#include <sys/stat.h>

#include <cstddef>
#include <cstdint>

#define F_FULLFSYNC 51
#define RENAME_SWAP 2U
#define st_mtimespec st_mtim

extern const locale_t _c_locale;
#define LC_C_LOCALE _c_locale

#define KERN_SUCCESS 0
#define HOST_VM_INFO64 4
#define MACH_TASK_BASIC_INFO 20
#define HOST_VM_INFO64_COUNT (sizeof(vm_statistics64_data_t) / sizeof(integer_t))
#define MACH_TASK_BASIC_INFO_COUNT (sizeof(mach_task_basic_info_data_t) / sizeof(natural_t))

using kern_return_t = int;
using integer_t = int;
using natural_t = unsigned;
using mach_port_t = unsigned;
using mach_msg_type_number_t = natural_t;
using host_info64_t = integer_t*;
using task_info_t = integer_t*;

struct vm_statistics64_data_t {
  natural_t free_count, active_count, inactive_count, wire_count;
  uint64_t zero_fill_count;  // and more
};
struct mach_task_basic_info_data_t {
  uint64_t virtual_size, resident_size, resident_size_max;  // and more
};

extern "C" {
int _NSGetExecutablePath(char* path, uint32_t* bytes);
char*** _NSGetArgv();
int* _NSGetArgc();
int sysctlbyname(const char* name, void* old_value, size_t* old_bytes, void* new_value,
                 size_t new_bytes);
int renamex_np(const char* from, const char* to, unsigned flags);
mach_port_t mach_host_self();
mach_port_t mach_task_self();
kern_return_t mach_port_deallocate(mach_port_t task, mach_port_t name);
kern_return_t host_statistics64(mach_port_t host, int kind, host_info64_t to,
                                mach_msg_type_number_t* count);
kern_return_t task_info(mach_port_t task, natural_t kind, task_info_t to,
                        mach_msg_type_number_t* count);
}
