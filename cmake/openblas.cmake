# Defines linea::openblas and OPENBLAS_FOLDER. Also part of the installed package (linea-config.cmake).
#
# OpenBLAS in its OpenMP flavor, by its own path: the distribution's alternatives prefer the pthread
# build of the same soname when both are installed. On macOS Homebrew's, which has that flavor alone.
if(APPLE)
  set(openblas_homebrew /opt/homebrew/opt/openblas /usr/local/opt/openblas)
endif()
find_library(OPENBLAS_LIBRARY openblas NO_DEFAULT_PATH PATH_SUFFIXES lib
  PATHS /usr/lib/${CMAKE_LIBRARY_ARCHITECTURE}/openblas-openmp ${openblas_homebrew})
find_path(OPENBLAS_INCLUDE cblas.h NO_DEFAULT_PATH PATH_SUFFIXES include
  PATHS /usr/include/${CMAKE_LIBRARY_ARCHITECTURE}/openblas-openmp ${openblas_homebrew})
if(NOT OPENBLAS_LIBRARY OR NOT OPENBLAS_INCLUDE)
  message(FATAL_ERROR "OpenBLAS in its OpenMP flavor was not found: install libopenblas-openmp-dev (macOS: brew install openblas)")
endif()
get_filename_component(OPENBLAS_FOLDER ${OPENBLAS_LIBRARY} DIRECTORY)
add_library(linea::openblas INTERFACE IMPORTED GLOBAL)
set_target_properties(linea::openblas PROPERTIES
  INTERFACE_LINK_LIBRARIES ${OPENBLAS_LIBRARY} INTERFACE_INCLUDE_DIRECTORIES ${OPENBLAS_INCLUDE})
