// How much of sampled text is words of the training text, and how much is copied from it.
#pragma once

#include <string>
#include <vector>

#include "data/tasks/task.h"
#include "data/vocabulary.h"
#include "judge/text.h"

namespace linea {

struct TextReport {
  KnownWords of_samples, of_validation;  // words that occur in the training text
  // The longest runs that occur there too, of the samples and of equally much validation text.
  CopiedRun run, validation_run;
  std::string copied;     // the text of `run`
  bool in_bytes = false;  // the runs, of byte pairs; else in tokens
};

TextReport judge_text(const Task& task, const Vocabulary& vocabulary,
                      const std::vector<std::vector<int32_t>>& sampled);

}  // namespace linea
