# cmake --install and cpack: the program with its manual and completions (component program), and the library
# (component development): headers, archives and a package for find_package(linea).
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

install(TARGETS linea COMPONENT program)
if(TARGET linea-mpi)  # where parallel/launch.cpp looks for it; packages do without
  install(TARGETS linea-mpi LIBRARY DESTINATION libexec/linea COMPONENT mpi)
endif()
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/linea RENAME copyright COMPONENT program)

# From the program's own declarations of its flags.
set(manual ${PROJECT_BINARY_DIR}/linea.1.gz)
add_custom_command(OUTPUT ${manual} COMMAND linea man | gzip -9n > ${manual} DEPENDS linea VERBATIM)
foreach(shell bash zsh fish)
  set(completion_${shell} ${PROJECT_BINARY_DIR}/linea.${shell})
  add_custom_command(OUTPUT ${completion_${shell}} COMMAND linea completion ${shell} > ${completion_${shell}}
    DEPENDS linea VERBATIM)
endforeach()
add_custom_target(linea_manual ALL DEPENDS ${manual} ${completion_bash} ${completion_zsh}
  ${completion_fish})
install(FILES ${manual} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT program)
install(FILES ${completion_bash} DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME linea
  COMPONENT program)
install(FILES ${completion_fish} DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d COMPONENT program)
# /usr/local/share/zsh/site-functions; in Debian's packages, vendor-completions
foreach(folder site-functions vendor-completions)
  install(FILES ${completion_zsh} DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/${folder} RENAME _linea COMPONENT program)
endforeach()

# A user includes <linea/nn/model.h>. The installed headers include each other so, too: "nn/model.h" may be a header of
# the user's.
set(folders base parallel tensor autograd nn data train bench judge lab cli)
set(include_folder ${CMAKE_INSTALL_INCLUDEDIR}/linea)
install(DIRECTORY ${folders} DESTINATION ${include_folder} COMPONENT development
  FILES_MATCHING PATTERN *.h PATTERN peers EXCLUDE)
install(CODE "set(include_folder ${include_folder})\nset(folders ${folders})" COMPONENT development)
install(SCRIPT cmake/installed_headers.cmake COMPONENT development)
foreach(folder ${folders})
  set_target_properties(linea_${folder} PROPERTIES EXPORT_NAME ${folder})
  target_include_directories(linea_${folder} INTERFACE
    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}> $<INSTALL_INTERFACE:${include_folder}>)
  target_compile_features(linea_${folder} INTERFACE cxx_std_20)
  install(TARGETS linea_${folder} EXPORT linea-targets COMPONENT development)
endforeach()
set_target_properties(linea_train PROPERTIES EXPORT_NAME linea)
set_target_properties(linea_cli PROPERTIES EXPORT_NAME program)

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/linea)
install(EXPORT linea-targets NAMESPACE linea:: DESTINATION ${package_folder} COMPONENT development)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/linea-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES cmake/linea-config.cmake cmake/openblas.cmake ${PROJECT_BINARY_DIR}/linea-config-version.cmake
  DESTINATION ${package_folder} COMPONENT development)
# For other build systems. The archives are static: what they contain changes with each version, so there is no SOVERSION.
file(RELATIVE_PATH LINEA_PREFIX_FROM_PC /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
string(REGEX REPLACE "/$" "" LINEA_PREFIX_FROM_PC ${LINEA_PREFIX_FROM_PC})
configure_file(cmake/linea.pc.in ${PROJECT_BINARY_DIR}/linea.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/linea.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT development)
install(DIRECTORY examples DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/liblinea-dev COMPONENT development)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/liblinea-dev RENAME copyright COMPONENT development)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_PACKAGE_CONTACT "The Linea authors")
set(CPACK_COMPONENTS_ALL program development)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_COMPONENT_PROGRAM_DESCRIPTION "Performers and linear Transformers on images and text
Trains linear-attention Transformers from the command line on a CPU, evaluates
 them and samples from them.")
set(CPACK_DEBIAN_PROGRAM_PACKAGE_NAME linea)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SHLIBDEPS ON)
# By name: what shlibdeps finds for libopenblas.so.0 may be the pthread flavor.
set(CPACK_DEBIAN_PROGRAM_PACKAGE_DEPENDS libopenblas0-openmp)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_RECOMMENDS curl)
set(CPACK_COMPONENT_DEVELOPMENT_DESCRIPTION "Performers and linear Transformers: the C++20 library
Tensors, autograd, attention mechanisms and training as static libraries, with
 headers, a CMake package and examples.")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME liblinea-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS
  "libopenblas-openmp-dev, libfmt-dev, nlohmann-json3-dev, zlib1g-dev, libssl-dev")
include(CPack)
