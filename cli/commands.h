// The commands. Each adds a subcommand with its options and what it does; `exit_code` is set by
// what runs. Errors are thrown as linea::Error, and become one line and an exit code in
// program.cpp.
#pragma once

namespace CLI {
class App;
}

namespace linea {

void add_train(CLI::App& program, int& exit_code);    // train.cpp
void add_sample(CLI::App& program, int& exit_code);   // sample.cpp
void add_eval(CLI::App& program, int& exit_code);     // eval.cpp
void add_judge(CLI::App& program, int& exit_code);    // judge.cpp
void add_attend(CLI::App& program, int& exit_code);   // attend.cpp
void add_verify(CLI::App& program, int& exit_code);   // verify.cpp
void add_bench(CLI::App& program, int& exit_code);    // bench.cpp
void add_compare(CLI::App& program, int& exit_code);  // compare.cpp
void add_lab(CLI::App& program, int& exit_code);      // lab.cpp
void add_approx(CLI::App& program, int& exit_code);   // approx.cpp
void add_data(CLI::App& program, int& exit_code);     // data.cpp
void add_info(CLI::App& program, int& exit_code);     // info.cpp
void add_help(CLI::App& program, int& exit_code);     // help.cpp
void add_runs(CLI::App& program, int& exit_code);     // runs.cpp
void add_presets(CLI::App& program, int& exit_code);  // presets.cpp
void add_plot(CLI::App& program, int& exit_code);     // plot.cpp
void add_completion(CLI::App& program, int& exit_code);
void add_man(CLI::App& program, int& exit_code);

}  // namespace linea
