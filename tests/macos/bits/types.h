// int64_t as on macOS, where it is long long: on Linux it is long, as size_t and others are.
#ifndef LINEA_TESTS_MACOS_TYPES_H
#define LINEA_TESTS_MACOS_TYPES_H

#define __int64_t linux_int64_t
#define __uint64_t linux_uint64_t
#include_next <bits/types.h>
#undef __int64_t
#undef __uint64_t
typedef long long __int64_t;
typedef unsigned long long __uint64_t;

#endif
