// The page of a reader's own run, made of lab/data/run-NAME.json alone: the record that
// `linea lab page` writes.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "lab/record.h"
#include "train/run/checkpoint.h"

namespace linea::lab {

struct RunPageRequest {
  std::filesystem::path run;
  std::vector<std::string> on;  // images of the data or files, or one text; empty: chosen
  std::string data;             // the run's data, if moved since training
  int64_t seed = 1;             // of what is sampled
  std::string version;
};

// Loads the newest model of the run, samples and measures it, and writes `folder`/data/run-NAME.json. -> that
// name without its ending.
// Errors: those of load_model and given_images; ErrorKind::usage, a folder that is no run.
std::string write_run_record(const std::filesystem::path& folder, const RunPageRequest& request);
std::string run_page(const Record& record);

// measure_run.cpp. W16 to W20, as far as the model has them.
nlohmann::ordered_json measure_run(const SavedModel& saved, const RunPageRequest& request);
// measure_heads.cpp. W20: the first head of up to four layers on one sequence: its weights, summed over
// blocks of positions, those of softmax for the same q and k, and the state at the end. Null: a model of
// pairs.
nlohmann::ordered_json measure_heads(const Model& model, const ModelInputs& inputs);

}  // namespace linea::lab
