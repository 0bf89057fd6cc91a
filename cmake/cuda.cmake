# The CUDA backend without a GPU: kernels in .cu files, compiled by g++ as C++ against the emulator of
# cuda/emulator/. Only NVIDIA's headers are needed, neither nvcc nor a driver.
#
#   LINEA_CUDA_INCLUDE       the folder of those headers; false where there are none: then no target below exists
#   linea_emulator           a library: CUDA's runtime and cuBLAS on the CPU
#   linea_emulator_checker   a library: finds races, and reads of what no one wrote, in kernels compiled as
#                            `checked`; not in builds with LINEA_SANITIZE, whose sanitizers exclude it
#
#   linea_emulated_kernels(NAME fast|checked SOURCES... [LINK TARGETS...])
#     An OBJECT library of .cu files. `fast` is compiled for speed, or with the sanitizers of LINEA_SANITIZE.
#     `checked` tells the checker of each access to memory. To be called from a CMakeLists.txt that compiles
#     none of these files by nvcc: a file has one language in a directory.
#     Link it with target_link_libraries(program PRIVATE NAME): the emulator, and the checker, come with it.
#     Files of C++ that call CUDA (not kernels) may be among the sources.
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
  if(NOT LINEA_SANITIZE)  # it stays on this machine
    target_compile_options(${name} PRIVATE -march=native)
  endif()
  if(variant STREQUAL "checked")
    target_link_libraries(${name} PUBLIC linea_emulator_checker)
    target_compile_definitions(${name} PRIVATE LINEA_EMULATOR_CHECKED)
    # g++ tells of no access that it makes of several and that is not aligned to its size: so it makes none.
    target_compile_options(${name} PRIVATE -O2 -g1 -fsanitize=thread -fno-tree-vectorize -fno-store-merging)
  elseif(NOT variant STREQUAL "fast")
    message(FATAL_ERROR "linea_emulated_kernels(${name} ${variant}): the variant is fast or checked")
  endif()
  set(kernels ${KERNELS_UNPARSED_ARGUMENTS})
  list(FILTER kernels INCLUDE REGEX "\\.cu$")
  # Of this directory and the files themselves: another that compiles them by nvcc does not see it.
  set_source_files_properties(${kernels} PROPERTIES LANGUAGE CXX
    COMPILE_OPTIONS "-include;cuda/emulator/emulator.h")
endfunction()
