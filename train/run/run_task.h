// The task of a run that starts from another one or continues: a text keeps the tokens of the
// model, in their order, even where it has fewer of them.
#pragma once

#include <filesystem>
#include <memory>

#include "train/config.h"

namespace linea {

// For --init-from. Error: ErrorKind::input for a text with tokens that the model of `initial` does
// not have, which are named.
std::unique_ptr<Task> initial_task(const RunConfig& config, const std::filesystem::path& initial);

// For --resume. Where the data is not that of the run, its own task, for restore_checkpoint() to
// say what differs. Error: ErrorKind::input for data that cannot be read.
std::unique_ptr<Task> resumed_task(const RunConfig& config, const std::filesystem::path& run);

}  // namespace linea
