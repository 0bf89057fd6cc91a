// linea info, verify and bench.
#include "nn/attention.h"
#include "tests/cli/program.h"
#include "tests/data/safetensors_bytes.h"

namespace linea {
namespace {

class OtherCommands : public ProgramTest {
 protected:
  // Without the line breaks and indentation of wrapped lines.
  static std::string in_one_line(const std::string& text) {
    return fmt::format("{}", fmt::join(words_of(text), " "));
  }
  static void expect_narrow(const std::string& text) {
    for (const std::string& line : lines_of(text)) EXPECT_LE(line.size(), 100u) << line;
  }
};

TEST_F(OtherCommands, InfoDescribesTheBuild) {
  const Outcome info = done("info");
  EXPECT_EQ(info.err, "");
  for (const char* part : {"linea ", "BLAS", "OpenBLAS", " thread", "devices", "softmax",
                           "linear --feature elu", "digits-demo"})
    EXPECT_NE(info.out.find(part), std::string::npos) << part << "\n" << info.out;
}

// Every attention, as it is declared.
TEST_F(OtherCommands, InfoListsTheSettingsOfAttentions) {
  const std::string out = done("info").out;
  for (const AttentionEntry& entry : attentions()) {
    const size_t begin = out.find("attention   " + entry.name + ": ");
    ASSERT_NE(begin, std::string::npos) << entry.name << "\n" << out;
    const std::string block = out.substr(begin, out.find("verified:", begin) - begin);
    const std::string words = in_one_line(block);
    for (const std::string& text : {entry.name + ": " + entry.summary, "source: " + entry.source})
      EXPECT_NE(words.find(text), std::string::npos) << text << "\n" << block;
    for (const Setting& setting : entry.settings) {
      const std::string flag = "--" + flag_name(setting.key) + " " + to_string(setting.initial);
      EXPECT_NE(block.find(flag + " "), std::string::npos) << flag << "\n" << block;
      EXPECT_NE(words.find(setting.help), std::string::npos) << setting.help << "\n" << block;
    }
  }
  EXPECT_NE(out.find("--nu 1           F = 2 D nu features of dpfp (with --feature dpfp)"),
            std::string::npos)
      << out;
}

TEST_F(OtherCommands, InfoHasFactsOfAttentions) {
  const std::vector<nlohmann::json> lines = json_lines(done("info --json").out);
  ASSERT_EQ(lines.size(), 1u);
  ASSERT_EQ(lines[0]["mechanisms"].size(), lines[0]["attentions"].size());
  for (const nlohmann::json& facts : lines[0]["mechanisms"]) {
    const std::string name = facts["name"];
    if (name == "kda") {
      EXPECT_EQ(facts["causal"], true);
      EXPECT_EQ(facts["state_growth"], 0);
      EXPECT_EQ(facts["bidirectional"], false);
      EXPECT_EQ(facts["rotary"], true);
      EXPECT_EQ(facts["cuda"], false);
      EXPECT_EQ(facts["settings"], (nlohmann::json{{"beta_range", 1}, {"gate_rank", 0}}));
    }
    if (name == "axial") {
      EXPECT_EQ(facts["state_growth"], 2);  // its second layer reads a column
    }
    if (name == "linear") {
      EXPECT_EQ(facts["bidirectional"], true);
      EXPECT_EQ(facts["rotary"], false);
      EXPECT_EQ(facts["cuda"], true);
    }
  }
  const std::string text = in_one_line(done("info").out);
  EXPECT_NE(text.find("causal only; takes rotary positions; on a CPU only"), std::string::npos);
}

TEST_F(OtherCommands, InfoDescribesRunsAndFiles) {
  done(kDigits + " --steps 3 --out run");
  const std::string folder = "run/checkpoints/step-00000003";
  const std::string run = done("info run").out;
  for (const char* part : {"step        3 of 3", "linear --feature elu", "18 tensors", "length 144",
                           "dim = 16", "task = \"digits\""})
    EXPECT_NE(run.find(part), std::string::npos) << part << "\n" << run;
  EXPECT_EQ(done("info " + folder).out, run);
  const Outcome file = done("info " + folder + "/model.safetensors");
  EXPECT_EQ(file.err, "");
  for (const char* part : {"[5,16] token_embedding.weight", "[144,16] position_embedding.weight",
                           "[48,16] blocks.0.qkv.weight", "18 tensors", "metadata format"})
    EXPECT_NE(file.out.find(part), std::string::npos) << part << "\n" << file.out;
  EXPECT_NE(done("info " + folder + "/optimizer.safetensors").out.find("36 tensors"),
            std::string::npos);
  refused(3, "info nowhere", {"nowhere"});
  put("note.txt", "twelve bytes");
  refused(3, "info note.txt", {"note.txt"});
  fs::create_directories(path("empty"));
  refused(3, "info empty", {"empty", "no checkpoint"});
}

TEST_F(OtherCommands, InfoAndTablesWrapAtAHundredColumns) {
  expect_narrow(done("info").out);
  expect_narrow(done("presets").out);
  expect_narrow(done("data list").out);
  std::string folder = "long";
  for (int i = 0; i < 12; ++i) folder += "/folder-" + std::to_string(i);
  fs::create_directories(path(folder));
  put_text(folder + "/text.txt", 2000);
  const std::string data = path(folder + "/text.txt");
  done("train --task text --data " + data + " --length 16 --steps 1 --out " + folder + "/run" +
       kSmall);
  const std::string info = done("info " + folder + "/run").out;
  expect_narrow(info);
  std::string joined;  // the parts of a path, which is broken after "/"
  for (const std::string& word : words_of(info)) joined += word;
  EXPECT_NE(joined.find(data), std::string::npos) << info;
  expect_narrow(done("runs long").out);
  done(kCopy + " --steps 1 --out other");
  expect_narrow(done("runs --diff other " + folder + "/run").out);
}

// Types of the format that no tensor here has; loading them is refused.
TEST_F(OtherCommands, InfoDescribesTypesThatCannotBeRead) {
  put("file.safetensors", file_of(R"({"a":{"dtype":"F8_E4M3","shape":[4],"data_offsets":[0,4]},)"
                                  R"("b":{"dtype":"U16","shape":[1,2],"data_offsets":[4,8]},)"
                                  R"("c":{"dtype":"BF16","shape":[2],"data_offsets":[8,12]}})",
                                  std::string(12, 'x')));
  const Outcome outcome = done("info file.safetensors");
  for (const char* part : {"F8_E4M3 [4] a", "U16     [1,2] b", "BF16    [2] c", "3 tensors",
                           "does not read tensors of type F8_E4M3, U16"})
    EXPECT_NE(outcome.out.find(part), std::string::npos) << part << "\n" << outcome.out;
  EXPECT_EQ(json_lines(done("info file.safetensors --json").out).at(0)["tensors"][0]["dtype"],
            "F8_E4M3");
  refused(3, "eval file.safetensors", {"file.safetensors", "F8_E4M3"});
  refused(3, "attend --in file.safetensors --out y.safetensors", {"file.safetensors", "F8_E4M3"});
  put("unknown.safetensors",
      file_of(R"({"a":{"dtype":"Q4","shape":[4],"data_offsets":[0,4]}})", "abcd"));
  refused(3, "info unknown.safetensors", {"Q4", "F8_E4M3"});
}

TEST_F(OtherCommands, PresetsSayWhatTheyAre) {
  const std::string table = done("presets").out;
  for (const char* part : {"preset ", "task", "params", "time", "reaches", "digits-demo",
                           "0.2736 bits/dim on the test images", "36s"})
    EXPECT_NE(table.find(part), std::string::npos) << part << "\n" << table;
  const auto presets = json_lines(done("presets --json").out);
  EXPECT_EQ(presets.size(), json_lines(done("info --json").out).at(0)["presets"].size());
  for (const nlohmann::json& preset : presets)
    EXPECT_TRUE(preset["parameters"] > 0 && preset["minutes"] > 0 && preset["task"].is_string())
        << preset;
  const std::string toml = done("presets digits-linear").out;
  EXPECT_NE(toml.find("# Minutes: "), std::string::npos) << toml;
  put("mine.toml", toml);
  done("train --config mine.toml --steps 1 --out run --sample-every 0" + kSmall);
  EXPECT_EQ(json_lines(done("presets digits-linear --json").out).at(0)["config"]["task"], "digits");
  refused(2, "presets digit-demo", {"no preset 'digit-demo'", "digits-demo"});
}

TEST_F(OtherCommands, VerifyChecksTheAttentions) {
  if (kSanitized) GTEST_SKIP() << "too slow here; the release build's tests do it";
  const Outcome outcome = done("verify --attention linear --json");
  const std::vector<nlohmann::json> checks = json_lines(outcome.out);
  EXPECT_GE(checks.size(), 50u);
  std::vector<std::string> attentions;
  for (const nlohmann::json& check : checks) {
    EXPECT_EQ(check["passed"], true) << check;
    EXPECT_TRUE(check["measured"].is_number() && check["bound"].is_number() &&
                check["check"].is_string())
        << check;
    const std::string name = check["attention"];
    if (attentions.empty() || attentions.back() != name) attentions.push_back(name);
  }
  // features by the rules sum, gated, delta and gated-delta; delta with another norm, decay
  EXPECT_EQ(attentions.size(), 5u + 4 + 4 + 4 + 2);
}

TEST_F(OtherCommands, VerifyPrintsTheChecksOfEachAttention) {
  if (kSanitized) GTEST_SKIP() << "too slow here; the release build's tests do it";
  const std::string out = done("verify --attention softmax").out;
  expect_narrow(out);
  EXPECT_EQ(out.rfind("  check  ", 0), 0u) << out;
  for (const char* part : {"\nsoftmax\n", "\n  gradients = differences  ", "  ok\n"})
    EXPECT_NE(out.find(part), std::string::npos) << part << "\n" << out;
}

TEST_F(OtherCommands, BenchPrintsOneLinePerLength) {
  const Outcome outcome =
      done("bench attention --lengths 64,128 --seconds 0 --json --svg times.svg");
  const std::vector<nlohmann::json> lines = json_lines(outcome.out);
  ASSERT_EQ(lines.size(), 1u + 3 * 2 + 3);  // softmax, linear, performer; who is faster than whom
  for (const char* key :
       {"blas", "kernel", "threads", "sgemm_gflops", "batch", "heads", "key_size"})
    EXPECT_TRUE(lines[0].contains(key)) << lines[0];
  for (size_t i = 1; i < 7; ++i) {
    EXPECT_EQ(lines[i]["length"], i % 2 == 1 ? 64 : 128);
    for (const char* key : {"forward_s", "forward_backward_s", "step_s"})
      EXPECT_GT(lines[i][key], 0.0) << lines[i];
    for (const char* key : {"forward_bytes", "forward_backward_bytes"})
      EXPECT_GE(lines[i][key], 0.0) << lines[i];
  }
  for (size_t i = 7; i < lines.size(); ++i)
    for (const char* key : {"faster", "than", "forward", "forward_backward", "step"})
      EXPECT_TRUE(lines[i].contains(key)) << lines[i];
  const std::string chart = bytes("times.svg");
  for (const char* text : {">forward and backward<", ">a sampled token<", ">softmax<",
                           ">linear --feature elu<", ">128<"})
    EXPECT_NE(chart.find(text), std::string::npos) << text;
  expect_narrow(done("bench attention --lengths 64 --seconds 0").out);
  refused(6, "bench attention --lengths 64 --seconds 0 --svg nowhere/x.svg", {"nowhere/x.svg"});
  refused(2, "bench attention --lengths 0 --seconds 0 --json", {"--lengths", "0"});
  refused(2, "bench attention --lengths x", {"--lengths"});
  refused(2, "bench", {"subcommand"});
}

}  // namespace
}  // namespace linea
