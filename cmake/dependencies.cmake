# The libraries that Linea uses, all from the distribution's packages. A missing one is named with its package.

if(APPLE)  # Homebrew keeps these out of the folders that are searched
  foreach(prefix /opt/homebrew/opt /usr/local/opt)
    list(APPEND CMAKE_PREFIX_PATH ${prefix}/libomp ${prefix}/openssl@3)
  endforeach()
  find_package(OpenMP QUIET COMPONENTS CXX)
  if(NOT OpenMP_CXX_FOUND)
    message(FATAL_ERROR "OpenMP was not found: brew install libomp openblas openssl@3 fmt nlohmann-json cli11 tomlplusplus md4c")
  endif()
endif()
find_package(OpenMP REQUIRED COMPONENTS CXX)
find_package(ZLIB REQUIRED)
find_package(OpenSSL REQUIRED COMPONENTS Crypto)
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)

# MPI's interface for C, without its libraries for C++.
if(NOT LINEA_MPI STREQUAL "OFF")
  enable_language(C)
  find_package(MPI QUIET COMPONENTS C)
  if(LINEA_MPI STREQUAL "ON" AND NOT MPI_C_FOUND)
    message(FATAL_ERROR "MPI was not found: install libopenmpi-dev, or configure with -DLINEA_MPI=OFF")
  endif()
endif()
include(${CMAKE_CURRENT_LIST_DIR}/openblas.cmake)
list(APPEND CMAKE_BUILD_RPATH ${OPENBLAS_FOLDER})
set(openblas_there ${OPENBLAS_FOLDER})
if(CMAKE_SYSROOT)  # the root folder of another machine
  string(REPLACE "${CMAKE_SYSROOT}" "" openblas_there "${OPENBLAS_FOLDER}")
endif()
list(APPEND CMAKE_INSTALL_RPATH ${openblas_there})

find_path(STB_INCLUDE stb/stb_image_write.h)
if(NOT STB_INCLUDE)
  message(FATAL_ERROR "stb was not found: install libstb-dev, or name a folder that has stb/ by -DSTB_INCLUDE=FOLDER")
endif()
add_library(stb INTERFACE)
target_include_directories(stb SYSTEM INTERFACE ${STB_INCLUDE})

# Header-only: train/toml.cpp compiles it.
find_path(TOMLPLUSPLUS_INCLUDE toml++/toml.h)
if(NOT TOMLPLUSPLUS_INCLUDE)
  message(FATAL_ERROR "toml++ was not found: install libtomlplusplus-dev")
endif()
add_library(tomlplusplus INTERFACE)
target_include_directories(tomlplusplus SYSTEM INTERFACE ${TOMLPLUSPLUS_INCLUDE})

# For the pages of `linea lab`; without it the rest is built, and --out is refused.
find_path(MD4C_INCLUDE md4c.h)
if(MD4C_INCLUDE AND APPLE)  # whose linker does not search Homebrew's folder
  find_library(MD4C_LIBRARY md4c)
elseif(MD4C_INCLUDE)
  set(MD4C_LIBRARY md4c)
else()
  message(STATUS "md4c was not found, so `linea lab` writes no pages: install libmd4c-dev")
endif()
