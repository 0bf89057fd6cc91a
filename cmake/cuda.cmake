# The CUDA backend without a GPU: kernels in .cu files, compiled by g++ as C++ against the emulator of
# cuda/emulator/. Only NVIDIA's headers are needed, neither nvcc nor a driver.
#
#   LINEA_CUDA_INCLUDE       the folder of these headers; false if they are missing, and then the targets do not exist
#   linea_emulator           a library: the CUDA runtime and cuBLAS on the CPU
#   linea_emulator_checker   a library: finds data races and uninitialized reads in kernels compiled as `checked`;
#                            not in builds with LINEA_SANITIZE, whose sanitizers exclude it
#
#   linea_emulated_kernels(NAME fast|checked SOURCES... [LINK TARGETS...])
#     An OBJECT library of .cu files and C++ files that call CUDA. `fast` is compiled for speed, or with the
#     sanitizers of LINEA_SANITIZE. `checked` reports each memory access to the checker. Linking it with
#     target_link_libraries(program PRIVATE NAME) also links the emulator and the checker. Call it from a
#     CMakeLists.txt that compiles none of these files with nvcc: a file has one language per directory.
#
# nvcc needs -std=c++20 --expt-relaxed-constexpr --extended-lambda (cuda/CMakeLists.txt).

find_package(CUDAToolkit QUIET)
find_path(LINEA_CUDA_INCLUDE NAMES cublas_v2.h HINTS ${CUDAToolkit_INCLUDE_DIRS} PATHS /usr/local/cuda/include
  DOC "NVIDIA's headers of CUDA and cuBLAS")
if(LINEA_CUDA_INCLUDE)
  file(STRINGS ${LINEA_CUDA_INCLUDE}/cuda_runtime_api.h cuda_version REGEX "^#define CUDART_VERSION ")
  if(NOT cuda_version MATCHES "1[2-9][0-9][0-9][0-9]$")
    message(STATUS "The headers in ${LINEA_CUDA_INCLUDE} are older than CUDA 12: the tests on the emulated GPU "
      "are skipped")
    set(LINEA_CUDA_INCLUDE "")
  endif()
else()
  message(STATUS "The headers of CUDA and cuBLAS were not found: the tests on the emulated GPU are skipped")
endif()

function(linea_emulated_kernels name variant)
  cmake_parse_arguments(PARSE_ARGV 2 KERNELS "" "" "LINK")
  add_library(${name} OBJECT ${KERNELS_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PUBLIC linea_emulator ${KERNELS_LINK})
  target_compile_options(${name} PRIVATE -fno-strict-aliasing -ffp-contract=off -Wno-unknown-pragmas)
  if(NOT LINEA_SANITIZE)  # never installed, so it may use every instruction of this machine
    target_compile_options(${name} PRIVATE -march=native)
  endif()
  if(variant STREQUAL "checked")
    target_link_libraries(${name} PUBLIC linea_emulator_checker)
    target_compile_definitions(${name} PRIVATE LINEA_EMULATOR_CHECKED)
    # g++ does not instrument accesses that it merges into a larger, unaligned one; so merging is disabled. Undefined
    # behavior, such as a misaligned vector or an index outside of an array, ends the kernel by SIGILL. A vector's
    # copy remains one access, as it is on a GPU.
    target_compile_options(${name} PRIVATE -O2 -g1 -fsanitize=thread -fno-tree-vectorize -fno-store-merging -fno-tree-sra
      -fsanitize=undefined -fsanitize-undefined-trap-on-error)
  elseif(NOT variant STREQUAL "fast")
    message(FATAL_ERROR "linea_emulated_kernels(${name} ${variant}): the variant is fast or checked")
  endif()
  set(kernels ${KERNELS_UNPARSED_ARGUMENTS})
  list(FILTER kernels INCLUDE REGEX "\\.cu$")
  # File properties are per directory: a directory that compiles these files with nvcc is not affected.
  set_source_files_properties(${kernels} PROPERTIES LANGUAGE CXX)
  target_compile_options(${name} PRIVATE "SHELL:-include cuda/emulator/emulator.h")
endfunction()
