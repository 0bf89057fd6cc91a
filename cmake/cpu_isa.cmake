# One program for every x86-64 processor: tensor/cpu/ is compiled for any of them and once more for each level of wider
# vectors; tensor/cpu_isa.cpp chooses when the program runs. Defines linea_cpu_isa(TARGET), which adds them to it.
#
# A function that two levels both instantiate is one symbol to a linker, which keeps either: an older processor would
# then meet instructions that it does not have. So the objects of a level are joined into one of which nothing can be
# seen from outside but the function that returns its table. Apple's linker cannot do that.

# That of LLVM, which CMake takes with clang, knows the flag since version 19.
find_program(LINEA_JOINING_LINKER NAMES ld.bfd ${CMAKE_LINKER})

function(linea_cpu_level target level) # flags...
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tensor/cpu/*.cpp)
  linea_precompiled(${level}_set OPTIONS ${ARGN} HEADERS ${standard_headers})
  add_library(cpu_${level} OBJECT ${sources})
  linea_use_precompiled(${level}_set cpu_${level})
  target_link_libraries(cpu_${level} PRIVATE linea_options OpenMP::OpenMP_CXX linea::openblas fmt::fmt)
  target_compile_options(cpu_${level} PRIVATE ${ARGN})
  target_compile_definitions(cpu_${level} PRIVATE LINEA_CPU_BACKEND=cpu_backend_${level})
  set(joined ${PROJECT_BINARY_DIR}/cpu_${level}.o)
  add_custom_command(OUTPUT ${joined}
    COMMAND ${LINEA_JOINING_LINKER} -r --force-group-allocation -o ${joined}.open $<TARGET_OBJECTS:cpu_${level}>
    COMMAND ${CMAKE_OBJCOPY} --wildcard --keep-global-symbol=*cpu_backend_${level}* ${joined}.open ${joined}
    DEPENDS cpu_${level} $<TARGET_OBJECTS:cpu_${level}> COMMAND_EXPAND_LISTS VERBATIM)
  set_source_files_properties(${joined} PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
  target_sources(${target} PRIVATE ${joined})
  set_property(GLOBAL APPEND PROPERTY LINEA_CPU_ISA_OBJECTS ${joined})
endfunction()

function(linea_cpu_isa target)
  if(LINEA_NATIVE OR LINEA_SANITIZE OR CMAKE_CXX_FLAGS MATCHES "-fsanitize" OR NOT CMAKE_OBJCOPY OR
     APPLE OR NOT CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    return()
  endif()
  linea_cpu_level(${target} avx2 -mavx2 -mfma)
  linea_cpu_level(${target} avx512 -mavx512f -mavx512bw -mavx512dq -mavx512vl -mfma -mprefer-vector-width=512)
  target_compile_definitions(${target} PRIVATE LINEA_CPU_ISA)
endfunction()

# The kernels of bf16 products, one file an instruction set. Unlike a level they are in every build; they share no inline
# function with other files.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  set(packed_folder ${PROJECT_SOURCE_DIR}/tensor/cpu/packed)
  set(bf16_avx512 -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512bf16 -mfma)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")  # g++ 12 warns of its own intrinsics
    list(APPEND bf16_avx512 -Wno-uninitialized -Wno-maybe-uninitialized)
  endif()
  set_source_files_properties(${packed_folder}/fma.cpp PROPERTIES SKIP_PRECOMPILE_HEADERS ON COMPILE_OPTIONS "-mavx2;-mfma")
  set_source_files_properties(${packed_folder}/avx512.cpp PROPERTIES SKIP_PRECOMPILE_HEADERS ON COMPILE_OPTIONS "${bf16_avx512}")
  set_source_files_properties(${packed_folder}/amx.cpp PROPERTIES SKIP_PRECOMPILE_HEADERS ON
    COMPILE_OPTIONS "${bf16_avx512};-mamx-tile;-mamx-bf16")
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
  set_source_files_properties(${PROJECT_SOURCE_DIR}/tensor/cpu/packed/bfmmla.cpp
    PROPERTIES SKIP_PRECOMPILE_HEADERS ON COMPILE_OPTIONS "-march=armv8.2-a+bf16")
endif()
