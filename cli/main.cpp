// The program `linea`.
#include "cli/program.h"

int main(int argc, char** argv) { return linea::run_program(argc, argv); }
