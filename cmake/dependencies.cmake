# What Linea stands on, all from the distribution's packages. A missing one is named with its package.

find_package(OpenMP REQUIRED COMPONENTS CXX)
find_package(ZLIB REQUIRED)
find_package(OpenSSL REQUIRED COMPONENTS Crypto)
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)

# OpenBLAS in its OpenMP flavour, by its own path: the distribution's alternatives prefer the pthread
# build of the same soname when both are installed.
find_library(OPENBLAS_LIBRARY openblas NO_DEFAULT_PATH
  PATHS /usr/lib/${CMAKE_LIBRARY_ARCHITECTURE}/openblas-openmp)
find_path(OPENBLAS_INCLUDE cblas.h NO_DEFAULT_PATH
  PATHS /usr/include/${CMAKE_LIBRARY_ARCHITECTURE}/openblas-openmp)
if(NOT OPENBLAS_LIBRARY OR NOT OPENBLAS_INCLUDE)
  message(FATAL_ERROR "OpenBLAS in its OpenMP flavour was not found: install libopenblas-openmp-dev")
endif()
get_filename_component(OPENBLAS_FOLDER ${OPENBLAS_LIBRARY} DIRECTORY)
list(APPEND CMAKE_BUILD_RPATH ${OPENBLAS_FOLDER})
list(APPEND CMAKE_INSTALL_RPATH ${OPENBLAS_FOLDER})
add_library(openblas INTERFACE)
target_link_libraries(openblas INTERFACE ${OPENBLAS_LIBRARY})
target_include_directories(openblas SYSTEM INTERFACE ${OPENBLAS_INCLUDE})

find_path(STB_INCLUDE stb/stb_image_write.h)
if(NOT STB_INCLUDE)
  message(FATAL_ERROR "stb was not found: install libstb-dev")
endif()
add_library(stb INTERFACE)
target_include_directories(stb SYSTEM INTERFACE ${STB_INCLUDE})
