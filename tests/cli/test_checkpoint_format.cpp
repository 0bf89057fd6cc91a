// Runs of older versions: another checkpoint format is refused by one line that says to train the
// model again; a model with other windows of its 2-D convolutions loads, and one line says so; deleted
// settings are ignored at their defaults.
#include "data/safetensors.h"
#include "tests/cli/program.h"

namespace linea {
namespace {

class CheckpointFormat : public ProgramTest {
 protected:
  // A run as format linea-1 saved it: its format, its tensor names and a setting of its config.
  void make_old_run(const std::string& run) const {
    done(kCopy + " --steps 2 --out " + run);
    const std::string folder = run + "/checkpoints/step-00000002";
    const std::string model = path(folder + "/model.safetensors");
    std::vector<NamedTensor> tensors;
    std::map<std::string, std::string> metadata;
    {
      const SafetensorsFile file = SafetensorsFile::open(model);
      metadata = file.metadata();
      for (const SafetensorsEntry& entry : file.entries()) {
        std::string name = entry.name;
        if (name == "token_embedding.weight") name = "symbols";
        const size_t norm = name.find(".norm");
        if (norm != std::string::npos && name.ends_with(".weight"))
          name.replace(name.size() - 6, 6, "gain");
        tensors.push_back({name, file.read(entry.name)});
      }
      EXPECT_TRUE(file.contains("token_embedding.weight"));
    }
    metadata["format"] = "linea-1";
    write_safetensors(model, tensors, metadata);
    seal(folder);
    put(run + "/config.toml", "head = \"categorical\"\n" + metadata["config"]);
  }

  void change_metadata(
      const std::string& folder,
      const std::function<void(std::map<std::string, std::string>&)>& change) const {
    const std::string model = path(folder + "/model.safetensors");
    std::vector<NamedTensor> tensors;
    std::map<std::string, std::string> metadata;
    {
      const SafetensorsFile file = SafetensorsFile::open(model);
      metadata = file.metadata();
      for (const SafetensorsEntry& entry : file.entries())
        tensors.push_back({entry.name, file.read(entry.name)});
    }
    change(metadata);
    write_safetensors(model, tensors, metadata);
    nlohmann::json manifest = parse_json(bytes(folder + "/manifest.json"));
    manifest["config_sha256"] = hash_bytes(metadata["config"]);
    put(folder + "/manifest.json", dump_json(manifest));
    seal(folder);
  }
  int64_t lines_on_windows(const std::string& command) const {
    const std::string err = done(command).err, line = "reads nothing beyond the border";
    int64_t count = 0;
    for (size_t at = err.find(line); at != std::string::npos; at = err.find(line, at + 1)) ++count;
    return count;
  }
};

TEST_F(CheckpointFormat, AnOlderOneIsRefused) {
  make_old_run("old");
  for (const char* command :
       {"sample old --tokens 5", "eval old", "info old", "train --resume old --steps 3",
        "train --resume old --dry-run", "train --init-from old --steps 3 --out new"})
    refused(3, command, {"model.safetensors", "'linea-1'", "'linea-2'", "train the model again"});
  EXPECT_FALSE(exists("new"));
}

TEST_F(CheckpointFormat, OtherWindowsAreSaidUntilTheModelIsTrainedOn) {
  const std::vector<std::string> loads = {
      "eval run", "info run --json", "sample run --count 4 --out a.png",
      "train --init-from run --steps 1 --out from", "train --resume run --steps 2 --dry-run"};
  done(kDigits + " --steps 1 --layer-convolution 2d --out run");
  for (const std::string& command : loads) {
    EXPECT_EQ(lines_on_windows(command), 0) << command;
    if (exists("from")) remove("from");
  }
  change_metadata("run/checkpoints/step-00000001",
                  [](auto& metadata) { EXPECT_EQ(metadata.erase("image_windows"), 1u); });
  for (const std::string& command : loads) EXPECT_EQ(lines_on_windows(command), 1) << command;
  EXPECT_EQ(lines_on_windows("train --resume run --steps 2"), 1);
  EXPECT_EQ(lines_on_windows("eval run"), 0);
  EXPECT_EQ(lines_on_windows("eval from"), 0);
  done(kDigits + " --steps 1 --layer-convolution 1d --out rows");
  EXPECT_EQ(SafetensorsFile::open(path("rows/checkpoints/step-00000001/model.safetensors"))
                .metadata()
                .count("image_windows"),
            0u);
  EXPECT_EQ(lines_on_windows("eval rows"), 0);
}

TEST_F(CheckpointFormat, DeletedSettingsAreIgnoredAtTheirDefaults) {
  done(kCopy + " --steps 2 --out run");
  const std::string config = bytes("run/config.toml"), folder = "/checkpoints/step-00000002";
  copy("run", "straight");
  done("train --resume straight --steps 3");
  // A copy of the run whose settings are followed by these lines.
  const auto make_run = [&](const std::string& run, const std::string& lines) {
    copy("run", run);
    put(run + "/config.toml", config + lines);
    change_metadata(run + folder, [&](auto& metadata) { metadata["config"] += lines; });
  };
  const std::string defaults = "bigram_embedding = false\nembedding_convolution = \"none\"\n";
  make_run("old", defaults);
  EXPECT_EQ(done("eval old --json").out, done("eval run --json").out);
  done("train --init-from old --steps 1 --out next");
  done("train --resume old --steps 3");
  expect_same_checkpoint("straight", "old", 3);
  put("old.toml", defaults);
  done(kCopy + " --config old.toml --steps 2 --out new");
  expect_same_checkpoint("straight", "new", 2);

  const std::pair<const char*, const char*> others[] = {
      {"bigram_embedding = true\n", "'bigram_embedding' is true"},
      {"embedding_convolution = \"2d\"\n", "'embedding_convolution' is 2d"}};
  for (const auto& [line, problem] : others) {
    make_run("other", line);
    for (const char* command : {"eval other", "info other", "train --resume other --steps 3",
                                "train --init-from other --steps 1 --out no"})
      refused(3, command, {problem, "no such setting", "leave it out", "the version that trained"});
    put("other.toml", line);
    refused(2, kCopy + " --config other.toml --out no", {"other.toml:1", problem, "leave it out"});
    remove("other");
  }
  refused(2, kCopy + " --bigram-embedding --out no", {"'--bigram-embedding'", "leave it out"});
  refused(2, kCopy + " --embedding-convolution 1d --out no", {"leave it out"});
  EXPECT_FALSE(exists("no"));
}

}  // namespace
}  // namespace linea
