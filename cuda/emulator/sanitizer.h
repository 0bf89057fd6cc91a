// Marks memory as inaccessible for the address sanitizer; does nothing in builds without it.
#pragma once

#include <cstddef>

#if defined(__SANITIZE_ADDRESS__)
#define LINEA_ADDRESS_SANITIZER
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define LINEA_ADDRESS_SANITIZER
#endif
#endif

#ifdef LINEA_ADDRESS_SANITIZER
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace linea::emulator {

#ifdef LINEA_ADDRESS_SANITIZER
inline constexpr bool kAddressSanitizer = true;
inline void poison(const void* data, size_t bytes) { __asan_poison_memory_region(data, bytes); }
inline void unpoison(const void* data, size_t bytes) { __asan_unpoison_memory_region(data, bytes); }
#else
inline constexpr bool kAddressSanitizer = false;
inline void poison(const void*, size_t) {}
inline void unpoison(const void*, size_t) {}
#endif

}  // namespace linea::emulator
