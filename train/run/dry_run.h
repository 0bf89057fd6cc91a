// linea train --dry-run: sizes, memory and time of a run, without starting it or writing anything.
#pragma once

#include <filesystem>
#include <string>

#include "train/config.h"

namespace linea {

// Prints the sizes, FLOPs, memory and time of the run with these settings; `resumed`: the run that
// it would resume, `initial`: the run whose weights it would start from, or empty. With `json`, one
// JSON object. Errors: those of the run before its first step; ErrorKind::memory, after printing,
// where it does not fit.
void dry_run(const RunConfig& config, const std::filesystem::path& resumed,
             const std::string& initial, bool json);

}  // namespace linea
