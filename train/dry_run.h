// linea train --dry-run: what a run would be, found without starting it or writing anything.
#pragma once

#include <filesystem>
#include <string>

#include "train/config.h"

namespace linea {

// Prints the sizes, FLOPs, bytes and time of the run with these settings; `resumed`: the run that
// it would resume, `initial`: the one whose weights it would start from, or empty. With `json`,
// one JSON object. Errors: those of the run before its first step; ErrorKind::memory, after the
// print, where it does not fit.
void dry_run(const RunConfig& config, const std::filesystem::path& resumed,
             const std::string& initial, bool json);

}  // namespace linea
