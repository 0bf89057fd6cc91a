#include "judge/sample_judge.h"

#include "judge/image_judge.h"
#include "judge/text_judge.h"
#include "train/machine.h"
#include "train/samples.h"

namespace linea {
namespace {

constexpr int64_t kTokens = 500;  // of a text

// While one lives, work runs on the CPU in float32; what judges is small.
struct OnCpu {
  OnCpu() { use_machine(context().threads, "cpu"); }
  ~OnCpu() { context() = before; }
  OnCpu(const OnCpu&) = delete;
  OnCpu& operator=(const OnCpu&) = delete;
  const Context before = context();
};

MetricValues judge_images(const ImageJudge& judge, const ImageSet& samples, bool asked,
                          ProgressReporter& progress) {
  const OnCpu on_cpu;
  const ImageReport report = judge.judge(samples, asked, cache_folder(), progress);
  MetricValues values;
  if (const auto& by_class = report.by_class) {
    values.emplace_back("judge_sure", by_class->sure.samples / by_class->sure.real);
    if (by_class->right) values.emplace_back("judge_right", *by_class->right);
    values.emplace_back("judge_classes", by_class->effective.samples);
  }
  const Nearness nearness = nearness_of(report);
  values.emplace_back("judge_frechet", report.frechet.samples);
  values.emplace_back("judge_frechet_real", report.frechet.real);
  values.emplace_back("judge_nearest", nearness.min.samples);
  values.emplace_back("judge_nearest_real", nearness.min.real);
  values.emplace_back("judge_copies", static_cast<double>(nearness.copies));
  return values;
}

}  // namespace

SampleJudge sample_judge(const RunConfig& config, const Task& task, ProgressReporter& progress) {
  const int64_t count = config.judge_samples;
  const SamplingOptions options{1.0, false, static_cast<uint64_t>(config.seed)};
  if (task.shape().side > 0) {
    const auto judge = std::make_shared<ImageJudge>(config);
    return [=, &task, &progress](const Model& model, const SamplingProgress& sampled) {
      const ImageSet samples = sample_image_set(model, task.shape(), options, {count, -1}, sampled);
      return judge_images(*judge, samples, task.shape().classes > 0, progress);
    };
  }
  const std::string text = task.serialized_vocabulary();
  return [=, &task](const Model& model, const SamplingProgress& sampled) -> MetricValues {
    const Vocabulary vocabulary = Vocabulary::parse(text);
    const std::vector<std::vector<int32_t>> prompts(static_cast<size_t>(count),
                                                    {vocabulary.start_token()});
    const TextReport report =
        judge_text(task, vocabulary, sample_rows(model, options, prompts, kTokens, sampled));
    return {{"judge_known_words", report.of_samples.share()},
            {"judge_known_words_real", report.of_validation.share()},
            {"judge_copied_run", static_cast<double>(report.run.length)},
            {"judge_copied_run_real", static_cast<double>(report.validation_run.length)}};
  };
}

}  // namespace linea
