// A run of an older checkpoint format is refused by one line that says to train it again.
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
};

TEST_F(CheckpointFormat, AnOlderOneIsRefused) {
  make_old_run("old");
  for (const char* command :
       {"sample old --tokens 5", "eval old", "info old", "train --resume old --steps 3",
        "train --resume old --dry-run", "train --init-from old --steps 3 --out new"})
    refused(3, command, {"model.safetensors", "'linea-1'", "'linea-2'", "train the model again"});
  EXPECT_FALSE(exists("new"));
}

}  // namespace
}  // namespace linea
