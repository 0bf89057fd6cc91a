# For CMAKE_TOOLCHAIN_FILE: builds for ARM64 Linux on another machine, by Debian's cross compiler, with the libraries of
# the folder LINEA_SYSROOT, where tools/arm64-sysroot.sh unpacks them. What is built runs under qemu-user.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_CUDA_COMPILER NOTFOUND)  # this machine's has no libraries for another
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)

set(LINEA_SYSROOT ${CMAKE_CURRENT_LIST_DIR}/../build/arm64-sysroot CACHE PATH "the libraries for ARM64")
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES LINEA_SYSROOT)
get_filename_component(CMAKE_SYSROOT ${LINEA_SYSROOT} ABSOLUTE)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)

set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64 -L ${CMAKE_SYSROOT})
