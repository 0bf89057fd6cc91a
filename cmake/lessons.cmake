# Makes the files of lessons/ part of the program. A piece of source that a lesson shows and that is no longer there ends
# the build with its name.
add_executable(embed_lessons ${PROJECT_SOURCE_DIR}/tools/embed_lessons.cpp ${PROJECT_SOURCE_DIR}/lab/excerpt.cpp)
target_link_libraries(embed_lessons PRIVATE linea_base linea_options)
target_compile_options(embed_lessons PRIVATE ${light_options})
file(GLOB_RECURSE lesson_files CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/lessons/*)
add_custom_command(OUTPUT ${PROJECT_BINARY_DIR}/lessons.cpp
  COMMAND embed_lessons ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR}/lessons.cpp ${PROJECT_BINARY_DIR}/lessons.d
  DEPENDS embed_lessons ${lesson_files} DEPFILE ${PROJECT_BINARY_DIR}/lessons.d VERBATIM)
target_sources(linea_lab PRIVATE ${PROJECT_BINARY_DIR}/lessons.cpp)
