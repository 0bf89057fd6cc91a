// Makes the files of lessons/ part of the program: embed_lessons TREE OUT.cpp OUT.d
//
// Lines ```code FILE NAME of a lesson get what FILE defines by this name (lab/excerpt.h). OUT.d
// names all files that were read, for the build.
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <string>

#include "base/error.h"
#include "lab/excerpt.h"

namespace {

namespace fs = std::filesystem;

std::set<std::string> read_files;

std::string read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) linea::fail(linea::ErrorKind::input, "there is no {}", path.string());
  read_files.insert(path.string());
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string with_code(const fs::path& tree, const std::string& lesson) {
  std::istringstream lines(lesson);
  std::string result;
  for (std::string line; std::getline(lines, line);) {
    result += line + "\n";
    if (line.rfind("```code ", 0) != 0) continue;
    std::istringstream words(line.substr(8));
    std::string file, name;
    words >> file >> name;
    try {
      result += linea::lab::excerpt(read(tree / file), name);
    } catch (const linea::Error& error) {
      linea::fail(linea::ErrorKind::input, "{}: {}", file, error.what());
    }
  }
  return result;
}

void write(const fs::path& tree, const std::string& out, const std::string& dependencies) {
  std::set<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(tree / "lessons"))
    if (entry.is_regular_file()) files.insert(entry.path());
  std::ofstream code(out), list(dependencies);
  code << "// Generated from lessons/.\n#include \"lab/lesson.h\"\n\nnamespace linea::lab {\n\n"
          "const std::vector<LessonFile> kLessonFiles = {\n";
  for (const fs::path& file : files)
    code << "    {\"" << file.lexically_relative(tree / "lessons").string() << "\", R\"lesson("
         << (file.extension() == ".md" ? with_code(tree, read(file)) : read(file))
         << ")lesson\"},\n";
  code << "};\n\n}  // namespace linea::lab\n";
  list << out << ":";
  for (const std::string& file : read_files) list << " \\\n  " << file;
  list << "\n";
  code.flush();
  if (!code) linea::fail(linea::ErrorKind::write, "could not write {}", out);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    linea::require(argc == 4, "embed_lessons TREE OUT.cpp OUT.d");
    write(argv[1], argv[2], argv[3]);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "lessons: %s\n", error.what());
    return 1;
  }
}
