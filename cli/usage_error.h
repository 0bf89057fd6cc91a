// Errors of a command line, in the words of this program.
#pragma once

#include <string>

namespace CLI {
class App;
class ParseError;
}  // namespace CLI

namespace linea {

// The command that was asked for, such as `linea bench train`; `program` where there is none.
CLI::App& asked_command(CLI::App& program);
// "linea bench train"
std::string path_of(const CLI::App& command);

// One line on an error of the parser, with what to do.
std::string explain(const CLI::ParseError& error, CLI::App& program);

}  // namespace linea
