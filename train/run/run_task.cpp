#include "train/run/run_task.h"

#include <algorithm>

#include "data/tasks/image_folder_task.h"
#include "data/vocabulary.h"
#include "parallel/ranks.h"
#include "train/model_file.h"
#include "train/run/checkpoint_files.h"
#include "train/run/run_state.h"

namespace linea {
namespace {

namespace fs = std::filesystem;

// The tokens of the text that the model was trained on; "" for a model of anything else.
std::string text_vocabulary(const SafetensorsFile& file) {
  const std::string vocabulary = saved_vocabulary(file);
  return is_class_list(vocabulary) ? "" : vocabulary;
}

std::unique_ptr<Task> own_task(const RunConfig& config) {
  return make_saved_task(task_options(config, ""));
}

// Error: the new tokens of a text.
void refuse_new_tokens(const std::string& path, const std::string& model, const std::string& own) {
  constexpr size_t kShown = 20;
  const Vocabulary trained = Vocabulary::parse(model), text = Vocabulary::parse(own);
  std::vector<std::string> added = text.missing_from(trained);
  if (added.empty()) return;
  const size_t more = added.size() - std::min(added.size(), kShown);
  if (more > 0) added.resize(kShown);
  fail(ErrorKind::input,
       "{} was trained on a text of {} tokens, this text has {}: {}{} {} new; leave {} out of the "
       "text, or leave out `init_from`",
       path, trained.size(), text.size(), fmt::join(added, ", "),
       more > 0 ? fmt::format(" and {} more", more) : "", added.size() == 1 ? "is" : "are",
       added.size() == 1 ? "it" : "them");
}

struct TrainedText {
  std::string vocabulary, data;  // data: its fingerprint
};
// From the newest checkpoint that can be read; restore_checkpoint() reports the others.
TrainedText newest_text(const fs::path& run) {
  std::vector<CheckpointFolder> checkpoints = list_checkpoints(run);
  for (; !checkpoints.empty(); checkpoints.pop_back()) {
    const fs::path& folder = checkpoints.back().path;
    try {
      return {text_vocabulary(SafetensorsFile::open((folder / kModelFile).string())),
              read_run_state(folder / kStateFile).state.data};
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::input) throw;
    }
  }
  return {};
}

}  // namespace

std::unique_ptr<Task> initial_task(const RunConfig& config, const fs::path& initial) {
  // Rank 0 has the run; others may be on hosts without it.
  const std::string path =
      ranks().from_main("the run", [&] { return find_model_file(initial).string(); });
  const std::string vocabulary =
      ranks().from_main("the run", [&] { return text_vocabulary(open_model_file(path)); });
  const std::string settings = ranks().from_main(
      "the run", [&] { return metadata_value(open_model_file(path), path, "config"); });
  const RunConfig source = config_from_toml(settings, path);
  if (vocabulary.empty() || source.task != config.task) return own_task(config);
  try {
    return make_task(task_options(config, vocabulary));
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::input) throw;
    refuse_new_tokens(path, vocabulary, own_task(config)->serialized_vocabulary());
    throw;
  }
}

std::unique_ptr<Task> resumed_task(const RunConfig& config, const fs::path& run) {
  TrainedText text;
  const std::string vocabulary = ranks().from_main("the vocabulary", [&] {
    text = newest_text(run);
    return text.vocabulary;
  });
  const std::string data = ranks().broadcast(text.data, "the data");
  if (!vocabulary.empty()) {
    try {
      std::unique_ptr<Task> task = make_task(task_options(config, vocabulary));
      if (task->fingerprint() == data) return task;
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::input) throw;
    }
  }
  return own_task(config);
}

}  // namespace linea
