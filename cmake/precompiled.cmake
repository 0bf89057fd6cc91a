# Headers of the standard library and of others, read once for all files of some targets that are compiled by the same
# options. Every file includes what it needs all the same, so that it also compiles without LINEA_PCH.

# Makes a set: linea_precompiled(NAME [OPTIONS option...] [LIBRARIES library...] HEADERS header...)
function(linea_precompiled set)
  cmake_parse_arguments(arg "" "" "OPTIONS;LIBRARIES;HEADERS" ${ARGN})
  if(NOT LINEA_PCH)
    return()
  endif()
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/${set}.cpp CONTENT "// For the options that the headers are read by.\n")
  add_library(${set} OBJECT ${PROJECT_BINARY_DIR}/${set}.cpp)
  target_link_libraries(${set} PRIVATE linea_options OpenMP::OpenMP_CXX linea::openblas fmt::fmt ${arg_LIBRARIES})
  target_compile_options(${set} PRIVATE ${arg_OPTIONS})
  target_precompile_headers(${set} PRIVATE ${arg_HEADERS})
endfunction()

function(linea_use_precompiled set) # targets...
  if(NOT LINEA_PCH)
    return()
  endif()
  foreach(target ${ARGN})
    target_precompile_headers(${target} REUSE_FROM ${set})
  endforeach()
endfunction()

# Neither CLI11 nor JSON: in files that do not need them they cost more than they save in those that do.
set(standard_headers <algorithm> <cmath> <cstdint> <cstring> <filesystem> <functional> <limits> <map> <memory> <string>
  <string_view> <utility> <vector> <fmt/format.h> <fmt/ranges.h>)
linea_precompiled(standard_set HEADERS ${standard_headers})
set(standard_targets linea_base linea_tensor linea_autograd linea_nn linea_data linea_judge)
list(REMOVE_ITEM standard_targets ${light_targets})
linea_use_precompiled(standard_set ${standard_targets})
linea_precompiled(light_set OPTIONS ${light_options} HEADERS ${standard_headers})
linea_use_precompiled(light_set ${light_targets} linea)
