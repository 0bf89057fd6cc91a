#include "train/run/checkpoint_files.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "data/disk.h"
#include "data/hash.h"
#include "data/json.h"
#include "data/safetensors.h"

namespace linea {
namespace {

namespace fs = std::filesystem;
constexpr const char* kPrefix = "step-";
constexpr const char* kDraft = ".tmp-";
constexpr int64_t kManifestVersion = 1;
constexpr int64_t kMaxManifestBytes = 1 << 16;

// The step of "step-00001000"; -1 for any other name.
int64_t parse_step(const std::string& name) {
  if (name.rfind(kPrefix, 0) != 0) return -1;
  int64_t step = -1;
  const char *begin = name.data() + std::string(kPrefix).size(), *end = name.data() + name.size();
  const auto [rest, error] = std::from_chars(begin, end, step);
  return error == std::errc() && rest == end ? step : -1;
}

// Whether the object has exactly these members; so a damaged name of an optional one is detected.
bool has_exactly(const nlohmann::json& object, std::initializer_list<const char*> keys) {
  if (!object.is_object() || object.size() != keys.size()) return false;
  return std::all_of(keys.begin(), keys.end(),
                     [&](const char* key) { return object.contains(key); });
}

bool is_file_name(const nlohmann::json& name) {
  if (!name.is_string()) return false;
  const std::string text = name.get<std::string>();
  return !text.empty() && text.find('/') == std::string::npos && text != "." && text != "..";
}

void check_file(const fs::path& folder, const nlohmann::json& entry) {
  const fs::path path = folder / entry["name"].get<std::string>();
  const int64_t size = plain_file_size(path), expected = entry["size"].get<int64_t>();
  if (size != expected)
    fail(ErrorKind::input, "{}: has {} bytes, but {} in its manifest", path.string(), size,
         expected);
  const std::string hash = hash_file(path);
  if (hash != entry["sha256"])
    fail(ErrorKind::input, "{}: its SHA-256 is {}, but {} in its manifest", path.string(), hash,
         entry["sha256"].get<std::string>());
}

void check_manifest(const CheckpointFolder& checkpoint) {
  const fs::path path = checkpoint.path / kManifestFile;
  const nlohmann::json manifest = parse_json(read_file(path, kMaxManifestBytes));
  // Types are checked before values are printed: deeply nested lists would overflow the stack.
  if (!has_exactly(manifest, {"manifest", "step", "config_sha256", "files"}) ||
      !manifest["manifest"].is_number() || !manifest["step"].is_number() ||
      !manifest["config_sha256"].is_string() || !manifest["files"].is_array() ||
      manifest["files"].empty())
    fail(ErrorKind::input, "{}: is not the manifest of a checkpoint", path.string());
  if (manifest["manifest"] != kManifestVersion)
    fail(ErrorKind::input, "{}: has version {}; this program reads {}", path.string(),
         dump_json(manifest["manifest"]), kManifestVersion);
  if (checkpoint.step >= 0 && manifest["step"] != checkpoint.step)
    fail(ErrorKind::input, "{}: is the manifest of step {}, not {}", path.string(),
         dump_json(manifest["step"]), checkpoint.step);
  for (const nlohmann::json& entry : manifest["files"]) {
    if (!has_exactly(entry, {"name", "size", "sha256"}) || !is_file_name(entry["name"]) ||
        !entry["size"].is_number_unsigned() || !entry["sha256"].is_string())
      fail(ErrorKind::input, "{}: is not the manifest of a checkpoint", path.string());
    check_file(checkpoint.path, entry);
  }
  const std::map<std::string, std::string> metadata =
      SafetensorsFile::open(checkpoint.path / kModelFile).metadata();
  const auto config = metadata.find("config");
  if (config == metadata.end() || manifest["config_sha256"] != hash_bytes(config->second))
    fail(ErrorKind::input, "{}: the SHA-256 of its config is not that of {}", path.string(),
         kModelFile);
}

// Renames the folder first, so that no reader finds it half removed.
void remove_folder(const fs::path& folder) {
  const fs::path doomed = folder.parent_path() / (kDraft + folder.filename().string() + ".old");
  if (disk::rename(folder, doomed) == 0) disk::remove(doomed);
}

}  // namespace

std::vector<CheckpointFolder> list_checkpoints(const fs::path& run) {
  std::vector<CheckpointFolder> found;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(run / "checkpoints", error)) {
    const int64_t step = parse_step(entry.path().filename().string());
    if (step >= 0 && entry.is_directory(error)) found.push_back({step, entry.path()});
  }
  std::sort(found.begin(), found.end(),
            [](const auto& a, const auto& b) { return a.step < b.step; });
  return found;
}

std::string checkpoint_problem(const CheckpointFolder& checkpoint) {
  try {
    check_manifest(checkpoint);
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

CheckpointFolder newest_checkpoint(const fs::path& run) {
  const std::vector<CheckpointFolder> found = list_checkpoints(run);
  if (found.empty())
    fail(ErrorKind::input,
         "{} has no checkpoint: it is not a run of linea train, or has not saved yet (linea info)",
         run.string());
  std::string first_problem;
  for (auto checkpoint = found.rbegin(); checkpoint != found.rend(); ++checkpoint) {
    const std::string problem = checkpoint_problem(*checkpoint);
    if (problem.empty()) return *checkpoint;
    if (first_problem.empty()) first_problem = problem;
    if (checkpoint + 1 != found.rend())
      fmt::print(stderr, "linea: {}; using the checkpoint before it\n", problem);
  }
  fail(ErrorKind::input, "{} has no sound checkpoint: {}", run.string(), first_problem);
}

CheckpointDraft::CheckpointDraft(const fs::path& run, int64_t step) : step_(step) {
  const std::string name = fmt::format("{}{:08}", kPrefix, step);
  target_ = run / "checkpoints" / name;
  folder_ = run / "checkpoints" / (kDraft + name);
  disk::remove(folder_);  // left by a killed process
  make_folders(folder_);
}

CheckpointDraft::~CheckpointDraft() {
  if (!committed_) disk::remove(folder_);
}

void CheckpointDraft::add(const std::string& name, const WrittenFile& written) {
  files_.push_back({name, written});
}

void CheckpointDraft::commit(const std::string& settings) {
  nlohmann::ordered_json manifest = {
      {"manifest", kManifestVersion}, {"step", step_}, {"config_sha256", hash_bytes(settings)}};
  for (const File& file : files_)
    manifest["files"].push_back(
        {{"name", file.name}, {"size", file.written.bytes}, {"sha256", file.written.sha256}});
  write_file_atomically(folder_ / kManifestFile, dump_json(manifest, 1) + "\n");
  rename_durably(folder_, target_);
  committed_ = true;
  disk::remove(folder_);  // the previous folder of the target's name
}

void prune_checkpoints(const fs::path& run, int64_t step, const RetentionRule& rule) {
  if (rule.last == 0) return;
  std::vector<CheckpointFolder> found = list_checkpoints(run);
  while (!found.empty() && found.back().step > step) found.pop_back();
  const size_t newest = std::min(found.size(), static_cast<size_t>(rule.last));
  for (size_t i = 0; i + newest < found.size(); ++i) {
    const int64_t saved = found[i].step;
    const bool multiple = rule.every > 0 && saved > 0 && saved % rule.every == 0;
    const bool best = saved == rule.best || saved == rule.best_average;
    if (!best && !multiple) remove_folder(found[i].path);
  }
}

void set_bad_checkpoints_aside(const fs::path& run, int64_t step) {
  for (const CheckpointFolder& checkpoint : list_checkpoints(run)) {
    if (checkpoint.step <= step) continue;
    const fs::path aside =
        checkpoint.path.parent_path() / ("bad-" + checkpoint.path.filename().string());
    disk::remove(aside);
    disk::rename(checkpoint.path, aside);
  }
}

void remove_drafts(const fs::path& run) {
  std::vector<fs::path> drafts;
  for (const fs::path& folder : {run, run / "checkpoints", run / "samples"}) {
    std::error_code error;
    for (const fs::directory_entry& entry : fs::directory_iterator(folder, error))
      if (entry.path().filename().string().rfind(kDraft, 0) == 0) drafts.push_back(entry.path());
  }
  for (const fs::path& draft : drafts) disk::remove(draft);
}

}  // namespace linea
