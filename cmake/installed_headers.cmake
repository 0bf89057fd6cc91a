# Run by cmake --install, with include_folder and folders: #include "nn/model.h" becomes #include "linea/nn/model.h" in the
# installed headers.
string(REPLACE ";" "|" names "${folders}")
file(GLOB_RECURSE headers "$ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}/${include_folder}/*.h")
foreach(header IN LISTS headers)
  file(READ "${header}" text)
  string(REGEX REPLACE "#include \"(${names})/" "#include \"linea/\\1/" text "${text}")
  file(WRITE "${header}" "${text}")
endforeach()
