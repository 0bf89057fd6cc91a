// Files that are cut, changed or not ours; disks that are full; numbers that are none.
#include "tests/cli/program.h"

#include "data/safetensors.h"

namespace linea {
namespace {

class Damage : public ProgramTest {
 protected:
  // The model file `file`, its tensors and metadata changed, as `to`.
  using Change =
      std::function<void(std::vector<NamedTensor>&, std::map<std::string, std::string>&)>;
  void rewrite(const std::string& file, const std::string& to, const Change& change) const {
    const SafetensorsFile source = SafetensorsFile::open(path(file));
    std::vector<NamedTensor> tensors;
    for (const SafetensorsEntry& entry : source.entries())
      tensors.push_back({entry.name, source.read(entry.name)});
    std::map<std::string, std::string> metadata = source.metadata();
    change(tensors, metadata);
    write_safetensors(path(to), tensors, metadata);
  }
  static void replace(std::string& text, const std::string& from, const std::string& to) {
    const size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from << " is not in " << text;
    text.replace(at, from.size(), to);
  }
  void all_refuse(const std::string& file, std::initializer_list<std::string> fragments) const {
    for (const std::string command : {"eval", "sample"})
      refused(3, command + " " + file, fragments);
  }
};

TEST_F(Damage, ATruncatedModelIsRefused) {
  put_text("text.txt", 2000);
  done(kText + " --steps 1 --out run");
  const std::string file = "run/checkpoints/step-00000001/model.safetensors", good = bytes(file);
  const size_t header =
      static_cast<unsigned char>(good[0]) + 256u * static_cast<unsigned char>(good[1]);
  for (const size_t length : {size_t{0}, size_t{7}, size_t{8}, size_t{9}, header / 2, header + 7,
                              header + 8, header + 9, good.size() / 2, good.size() - 1}) {
    put(file, good.substr(0, length));
    SCOPED_TRACE(length);
    all_refuse(file, {file});
    all_refuse("run", {"no sound checkpoint", file, "in its manifest"});
    refused(3, "info " + file, {file});
    refused(3, "train --resume run", {file});
  }
  put(file, good + "x");
  all_refuse(file, {file});
  put(file, good);
  done("eval " + file);
  remove(file);
  all_refuse("run", {file});
}

TEST_F(Damage, AModelOfAnotherArchitectureIsRefused) {
  put_text("text.txt", 2000);
  done(kText + " --steps 1 --out run");
  const std::string file = "run/checkpoints/step-00000001/model.safetensors";
  const auto changed = [&](std::initializer_list<std::string> fragments, const Change& change) {
    rewrite(file, "m.safetensors", change);
    all_refuse("m.safetensors", fragments);
  };
  const auto config = [&](const std::string& from, const std::string& to,
                          std::initializer_list<std::string> fragments) {
    SCOPED_TRACE(to);
    changed(fragments, [&](auto&, auto& metadata) { replace(metadata["config"], from, to); });
  };
  rewrite(file, "m.safetensors", [](auto&, auto&) {});
  done("eval m.safetensors");
  config("dim = 16", "dim = 8", {"m.safetensors", "[7,16]", "[7,8]"});
  config("dim = 16", "dim = 32", {"m.safetensors", "dim 32", "weights"});
  config("layers = 1", "layers = 2", {"m.safetensors", "2 layers", "weights"});
  config("ffn = 32", "ffn = 8", {"m.safetensors", "[32,16]", "[8,16]"});
  config("ffn = 32", "ffn = 33", {"[32,16]", "[33,16]"});
  config("bias = true", "bias = false", {"m.safetensors", "tensors"});
  config("heads = 2", "heads = 3", {"m.safetensors", "--heads 3"});
  config("attention = \"linear\"", "attention = \"linaer\"", {"m.safetensors", "linaer"});
  config("length = 16", "length = 8", {"m.safetensors", "[16,16]", "[8,16]"});
  config("dim = 16", "dimm = 16", {"m.safetensors", "dimm"});
  config("dim = 16", "dim = 4611686018427387904", {"m.safetensors", "4611686018427387904"});
  config("layers = 1", "layers = 4611686018427387904", {"m.safetensors", "4611686018427387904"});
  config("task = \"text\"", "task = \"digits\"", {"m.safetensors"});
  config("task = \"text\"", "task = \"\"", {"m.safetensors"});
  changed({"m.safetensors", "token_embedding"}, [](auto& tensors, auto&) {
    for (NamedTensor& tensor : tensors)
      if (tensor.name == "token_embedding.weight") tensor.tensor = tensor.tensor.reshape({16, 7});
  });
  changed({"m.safetensors", "f64"}, [](auto& tensors, auto&) {
    for (NamedTensor& tensor : tensors)
      if (tensor.name == "norm.weight") tensor.tensor = Tensor::full({16}, DType::f64, 1.0);
  });
  changed({"m.safetensors", "missing"}, [](auto& tensors, auto&) { tensors.pop_back(); });
  changed({"m.safetensors", "tensors"}, [](auto& tensors, auto&) {
    tensors.push_back({"extra", Tensor::full({1}, DType::f32, 1.0)});
  });
  changed({"m.safetensors", "not a model of Linea"},
          [](auto&, auto& metadata) { metadata.clear(); });
  changed({"m.safetensors", "'config'"}, [](auto&, auto& metadata) { metadata.erase("config"); });
  changed({"m.safetensors", "'linea-99'"},
          [](auto&, auto& metadata) { metadata["format"] = "linea-99"; });
  changed({"m.safetensors", "'step'"}, [](auto&, auto& metadata) { metadata["step"] = "soon"; });
  changed({"m.safetensors", "vocabulary"},
          [](auto&, auto& metadata) { metadata.erase("vocabulary"); });
  changed({"m.safetensors"}, [](auto&, auto& metadata) { metadata["vocabulary"] = "[\"a\""; });
  changed({"m.safetensors"}, [](auto&, auto& metadata) { metadata["vocabulary"].pop_back(); });
  write_safetensors(path("m.safetensors"),
                    {{"token_embedding.weight", Tensor::full({2}, DType::f32, 1.0)}});
  all_refuse("m.safetensors", {"not a model of Linea"});
  done("info m.safetensors");
}

TEST_F(Damage, AFullDiskLeavesTheLastCheckpoint) {
  const std::string settings = kCopy + " --steps 12 --save-every 4 --keep-last 0";
  done(settings + " --out straight");
  copy("straight", "run");
  remove("run/checkpoints/step-00000012");
  const rlim_t limit = 8000;  // for the settings and metrics, not for a model
  const Outcome full = linea(words_of("train --resume run"), limit);
  check_refusal(full, 6, "resumed on a full disk", {"model.safetensors", "File too large"}, true);
  EXPECT_NE(full.err.find("step 12 is not saved, the end of the run tries again"),
            std::string::npos)
      << full.err;
  EXPECT_EQ(names_in("run/checkpoints"), (Words{"step-00000004", "step-00000008"}))
      << "nothing half-written stays";
  done("eval run");
  done("train --resume run");
  expect_same_checkpoint("straight", "run", 12);
  EXPECT_EQ(repeatable_metrics("straight"), repeatable_metrics("run"));

  const Outcome first = linea(words_of(settings + " --out new"), limit);
  check_refusal(first, 6, "a new run on a full disk", {"model.safetensors"}, true);
  const Outcome at_once = linea(words_of(settings + " --out other"), 300);
  check_refusal(at_once, 6, "no room for the settings", {"config.toml"}, true);

  done(kDigits + " --steps 1 --out images");
  check_refusal(linea(words_of("sample images --out x.png --count 64"), 200), 6,
                "an image on a full disk", {"x.png"}, true);
  EXPECT_FALSE(exists("x.png"));
}

// Its own rate drives the matrices.
TEST_F(Damage, NonfiniteLossesOfMuonNameItsRate) {
  check_refusal(linea(words_of(kCopy + " --optimizer muon --muon-lr 1e30 --lr 1e30 --warmup 0 "
                                       "--steps 20 --out run")),
                4, "a wild step of Muon", {"--muon-lr (1e+30), --lr (1e+30)", "--clip"}, true);
}

TEST_F(Damage, NonfiniteLossesStopTheRun) {
  const std::string wild = " --lr 1e30 --warmup 0 --clip 0";
  for (const std::string& attention : {std::string("linear"), std::string("softmax")}) {
    const std::string settings = kCopy + " --save-every 1 --keep-last 0 --attention " + attention;
    done(settings + " --steps 4 --out run");
    const std::string before = done("eval run --json").out;
    const Outcome outcome = linea(words_of("train --resume run --steps 20" + wild));
    check_refusal(
        outcome, 4, "a wild step",
        {"step 10", "the loss is nan", "5 updates in a row", "norm_linear", "--lr (1e+30)"}, true);
    // The weights after step 5 are spoilt: they did not become a checkpoint.
    EXPECT_EQ(names_in("run/checkpoints").back(), "step-00000004");
    EXPECT_NE(outcome.err.find("step 5 is not saved, training continues"), std::string::npos)
        << outcome.err;
    EXPECT_EQ(done("eval run --json").out, before);
    const std::vector<nlohmann::json> records = metrics("run");
    EXPECT_EQ(records.back()["step"], 10);
    EXPECT_EQ(records.back()["loss"], "nan");
    EXPECT_EQ(records.back()["incident"], "not finite");
    EXPECT_EQ(records.back()["skipped"], 5);
    EXPECT_EQ(records.back()["seed"], 1);
    EXPECT_NE(records.back()["first"].get<std::string>().find("norm_linear made in blocks.0"),
              std::string::npos);
    done("train --resume run --steps 6 --lr 0.001 --clip 1");
    for (const nlohmann::json& record : metrics("run"))
      if (record.contains("loss")) {
        EXPECT_TRUE(record["loss"].is_number()) << record;
      }
    remove("run");

    const Outcome rare = linea(words_of(kCopy + " --steps 20 --accumulate 2 --attention " +
                                        attention + wild + " --out run"));
    check_refusal(rare, 4, "found by the next steps", {"step 6", "the loss is nan"}, true);
    remove("run");
    const Outcome last =
        linea(words_of(kCopy + " --steps 1 --attention " + attention + wild + " --out run"));
    check_refusal(last, 4, "found by the last save", {"after step 1", "the loss is nan"}, true);
    EXPECT_TRUE(names_in("run/checkpoints").empty());
    remove("run");
  }
}

// The run says which parameter it is, and ends before it has saved anything.
TEST_F(Damage, ANonfiniteWeightIsNamed) {
  done(kCopy + " --steps 1 --out run");
  rewrite("run/checkpoints/step-00000001/model.safetensors", "m.safetensors",
          [](auto& tensors, auto&) {
            for (NamedTensor& tensor : tensors)
              if (tensor.name == "blocks.0.up.weight")
                tensor.tensor = Tensor::full(tensor.tensor.shape(), DType::f32, NAN);
          });
  const Outcome outcome =
      linea("train --init-from m.safetensors --steps 20 --save-every 1 --out spoilt");
  EXPECT_EQ(outcome.code, 4) << outcome.err;
  EXPECT_NE(outcome.err.find("512 values of the parameter blocks.0.up.weight are not finite"),
            std::string::npos)
      << outcome.err;
}

TEST_F(Damage, SpikesAreSkipped) {
  done(kCopy + " --steps 150 --lr 0.01 --spike-guard 1.1 --out run");
  int spikes = 0;
  for (const nlohmann::json& record : metrics("run"))
    if (record.contains("incident")) {
      ++spikes;
      EXPECT_EQ(record["incident"], "spike");
      EXPECT_GT(record["step"], 50) << "nothing is usual before";
      EXPECT_EQ(record["skipped"], spikes);
    }
  EXPECT_GT(spikes, 0);
  const nlohmann::json state = parse_json(bytes("run/checkpoints/step-00000150/state.json"));
  EXPECT_EQ(state["updates"], 150 - spikes);
  EXPECT_EQ(state["skipped"], spikes);
  refused(2, kCopy + " --spike-guard 0.5 --out other", {"--spike-guard", "0.5"});
}

// A disk that is full for a while costs a save, not the run.
TEST_F(Damage, SavingResumesOnceTheDiskHasSpace) {
  const int every = kSanitized ? 300 : 1000, steps = 3 * every;
  const std::string run =
      fmt::format("{} --steps {} --save-every {} --keep-last 0 --out ", kCopy, steps, every);
  done(run + "straight");
  Child child(path(""), words_of(run + "run"), 8000);
  for (int i = 0; i < 20000 && !exists("run/metrics.jsonl"); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  const std::string unsaved = fmt::format("step {} is not saved, training continues", every);
  while (read_file(path(".stderr")).find(unsaved) == std::string::npos &&
         read_file(path(".stderr")).find("done") == std::string::npos)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  child.lift_file_limit();
  EXPECT_EQ(child.wait().code, 0);
  EXPECT_FALSE(exists(fmt::format("run/checkpoints/step-{:08}", every)));
  expect_same_checkpoint("straight", "run", steps);
  EXPECT_EQ(repeatable_metrics("straight"), repeatable_metrics("run"));
}

TEST_F(Damage, ANonfiniteModelIsNotEvaluated) {
  done(kCopy + " --steps 1 --out run");
  rewrite("run/checkpoints/step-00000001/model.safetensors", "m.safetensors",
          [](auto& tensors, auto&) {
            for (NamedTensor& tensor : tensors)
              if (tensor.name == "norm.weight") tensor.tensor = Tensor::full({16}, DType::f32, NAN);
          });
  const Outcome outcome = linea("eval m.safetensors --json");
  check_refusal(outcome, 4, "eval of NaN", {"m.safetensors", "nan"}, true);
  EXPECT_EQ(outcome.out, "");
}

}  // namespace
}  // namespace linea
