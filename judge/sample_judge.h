// The samples of a model in training, judged as linea judge does.
#pragma once

#include "train/run/trainer.h"

namespace linea {

// For Trainer::judge_by. Judges config.judge_samples samples, of 500 tokens where they are text. Values:
//   images  judge_sure (of samples, divided by that of real images), judge_right, judge_classes: where
//           they have classes; judge_frechet, judge_nearest (least distance), judge_copies
//   text    judge_known_words (share), judge_copied_run (tokens)
// and of real data judge_frechet_real, judge_nearest_real,
// judge_known_words_real and judge_copied_run_real.
// Errors: those of reading the run's data.
SampleJudge sample_judge(const RunConfig& config, const Task& task, ProgressReporter& progress);

}  // namespace linea
