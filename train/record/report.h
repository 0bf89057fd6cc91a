// RUN/report.html: a page without other files that shows a run's progress, results, curves, samples
// of now and before, commands and settings.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "data/tasks/task.h"
#include "train/config.h"

namespace linea {

enum class RunStatus { running, finished, stopped, failed };

// From the files of the run. While it is running, browsers load the page again every few seconds,
// and say where the page is too old for a program that still writes it.
// Errors: ErrorKind::write, and those of reading the files.
void write_report(const std::filesystem::path& run, const RunConfig& config, const TaskShape& shape,
                  int64_t step, RunStatus status);

}  // namespace linea
