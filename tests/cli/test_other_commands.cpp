// linea info, verify and bench.
#include "nn/attention.h"
#include "tests/cli/program.h"

namespace linea {
namespace {

class OtherCommands : public ProgramTest {};

TEST_F(OtherCommands, InfoDescribesTheBuild) {
  const Outcome info = done("info");
  EXPECT_EQ(info.err, "");
  for (const char* part : {"linea ", "BLAS", "OpenBLAS", "threads", "devices", "softmax",
                           "linear --feature elu", "digits-demo"})
    EXPECT_NE(info.out.find(part), std::string::npos) << part << "\n" << info.out;
}

// Every attention, as it is declared.
TEST_F(OtherCommands, InfoListsTheSettingsOfAttentions) {
  const std::string out = done("info").out;
  for (const AttentionEntry& entry : attentions()) {
    const size_t begin = out.find("attention   " + entry.name + ": " + entry.summary);
    ASSERT_NE(begin, std::string::npos) << entry.name << "\n" << out;
    const std::string block = out.substr(begin, out.find("verified:", begin) - begin);
    EXPECT_NE(block.find("source: " + entry.source), std::string::npos) << block;
    for (const Setting& setting : entry.settings) {
      const std::string flag = "--" + flag_name(setting.key) + " " + to_string(setting.initial);
      EXPECT_NE(block.find(flag + " "), std::string::npos) << flag << "\n" << block;
      EXPECT_NE(block.find(setting.help), std::string::npos) << setting.help << "\n" << block;
    }
  }
  EXPECT_NE(out.find("--nu 1           F = 2 D nu features of dpfp (with --feature dpfp)"),
            std::string::npos)
      << out;
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
  // features by the rules sum, gated, delta and gated-delta
  EXPECT_EQ(attentions.size(), 5u + 4 + 4 + 4);
}

TEST_F(OtherCommands, BenchPrintsOneLinePerLength) {
  const Outcome outcome = done("bench attention --lengths 64,128 --seconds 0 --json");
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
  refused(2, "bench attention --lengths 0 --seconds 0 --json", {"--lengths", "0"});
  refused(2, "bench attention --lengths x", {"--lengths"});
  refused(2, "bench", {"subcommand"});
}

}  // namespace
}  // namespace linea
