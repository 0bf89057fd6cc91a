// What is read from the folders of finished runs: linea info RUN, runs and plot.
#include "tests/cli/program.h"

namespace linea {
namespace {

class RunsTest : public ProgramTest {
 protected:
  void SetUp() override {
    ProgramTest::SetUp();
    done(kCopy + " --steps 20 --eval-every 10 --out runs/long");
    done(kCopy + " --steps 10 --attention softmax --out runs/below/short");
    put("runs/below/short/metrics.jsonl",
        "{\"step\":10,\"loss\":1,\"lr\":1,\"bits\":2,\"tokens_per_s\":5}\n");
  }
  // Appends to the record of a run.
  void append(const std::string& run, const std::string& lines) const {
    put(run + "/metrics.jsonl", bytes(run + "/metrics.jsonl") + lines);
  }
};

TEST_F(RunsTest, InfoShowsLastAndBestResults) {
  append("runs/long",
         "{\"step\":21,\"incident\":\"spike\",\"loss\":99}\n"
         "{\"step\":22,\"loss\":0.5,\"tokens_per_s\":20000,\"elapsed_s\":65}\n"
         "{\"step\":22,\"val_loss\":1.5,\"val_bits\":2.25,\"val_accuracy\":0.5,\"val_tokens\":1,"
         "\"elapsed_s\":66}\n"
         "{\"step\":23,\"val_loss\":\"nan\",\"val_tokens\":1}\n"
         "{\"step\":24,\"val_loss\":1.75,\"val_bits\":2.5,\"val_accuracy\":0.25,\"val_tokens\":1}"
         "\n");
  put("runs/long/samples/step-00000010.txt", "a");
  put("runs/long/samples/step-00000020.txt", "b");
  const std::string text = done("info runs/long").out;
  for (const char* part :
       {"step 22: loss 0.5000, 20.0k tokens/s, 1m06s in all",
        "validation  step 24: loss 1.7500, 2.5000 bits/char, accuracy 0.2500 over 1 tokens",
        "best        step 22: loss 1.5000, 2.2500 bits", "written     20",
        "samples     runs/long/samples/step-00000020.txt and 1 more"})
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;

  const nlohmann::json run = json_lines(done("info runs/long --json").out).at(0);
  EXPECT_EQ(run["step"], 20);
  EXPECT_EQ(run["attention"], "linear --feature elu");
  EXPECT_EQ(run["training"]["loss"], 0.5);
  EXPECT_EQ(run["validation"]["step"], 24);
  EXPECT_EQ(run["best"]["step"], 22);
  EXPECT_EQ(run["elapsed_s"], 66);
  EXPECT_EQ(run["samples"].size(), 2u);
  EXPECT_EQ(run["config"]["dim"], 16);
  EXPECT_EQ(run["config"]["bias"], true);
  EXPECT_EQ(run["config"]["feature"], "elu");
}

TEST_F(RunsTest, InfoInJson) {
  const nlohmann::json build = json_lines(done("info --json").out).at(0);
  EXPECT_TRUE(build["version"].is_string() && build["attentions"].is_array());
  const std::string folder = "runs/long/checkpoints/step-00000020";
  const nlohmann::json file =
      json_lines(done("info --json " + folder + "/model.safetensors").out)[0];
  EXPECT_EQ(file["tensors"][0]["dtype"], "F32");
  EXPECT_EQ(file["metadata"]["step"], "20");
  const nlohmann::json checkpoint = json_lines(done("info --json " + folder).out).at(0);
  EXPECT_EQ(checkpoint["step"], 20);
  EXPECT_EQ(checkpoint["training"]["step"], 20);  // of its run
  copy(folder, "alone");
  EXPECT_TRUE(json_lines(done("info --json alone").out).at(0)["best"].is_null());
}

TEST_F(RunsTest, ListsRunsBelowAFolder) {
  const Words table = lines_of(done("runs runs").out);
  ASSERT_EQ(table.size(), 3u);
  EXPECT_EQ(words_of(table[0]), words_of("run step val loss attention params tokens/s date"));
  EXPECT_EQ(table[1].rfind("below/short    10         -  softmax", 0), 0u) << table[1];
  EXPECT_EQ(table[2].rfind("long           20  ", 0), 0u) << table[2];
  for (const std::string& line : table) EXPECT_LE(line.size(), 80u) << line;

  const auto listed = [&](const std::string& arguments) {
    return json_lines(done("runs --json " + arguments).out);
  };
  const std::vector<nlohmann::json> runs = listed("runs");
  ASSERT_EQ(runs.size(), 2u);
  EXPECT_EQ(runs[0]["run"], "below/short");
  EXPECT_TRUE(runs[0]["val_loss"].is_null());
  const nlohmann::json info = json_lines(done("info runs/long --json").out).at(0);
  EXPECT_EQ(runs[1]["parameters"], info["parameters"]);
  EXPECT_EQ(runs[1]["val_loss"], info["validation"]["val_loss"]);
  EXPECT_EQ(runs[1]["best_step"], info["best"]["step"]);
  EXPECT_EQ(runs[1]["date"], info["written"]);
  EXPECT_EQ(listed("runs --sort step")[0]["run"], "long");
  EXPECT_EQ(listed("runs --sort val_loss")[0]["run"], "long");
  EXPECT_EQ(listed("runs --sort attention")[0]["run"], "long");
  EXPECT_EQ(listed("runs/long")[0]["run"], "runs/long");
}

TEST_F(RunsTest, LeavesOutDamagedRuns) {
  put("runs/long/config.toml", "task = 3");
  const Outcome outcome = done("runs runs");
  EXPECT_EQ(lines_of(outcome.out).size(), 2u);
  EXPECT_NE(outcome.err.find("runs/long/config.toml"), std::string::npos) << outcome.err;
  EXPECT_NE(outcome.err.find("left out"), std::string::npos) << outcome.err;
}

TEST_F(RunsTest, RefusesFoldersWithoutRuns) {
  fs::create_directories(path("empty"));
  refused(3, "runs empty", {"no run in empty", "--out"});
  refused(3, "runs nowhere", {"nowhere"});
  refused(2, "runs runs --sort loss", {"--sort", "'loss'", "val_loss"});
}

TEST_F(RunsTest, PlotsRunsOverEachOther) {
  EXPECT_EQ(done("plot runs/long runs/below/short/ --svg loss.svg").out, "loss.svg\n");
  const std::string steps = bytes("loss.svg");
  for (const char* text :
       {">loss<", ">bits<", ">learning rate<", ">long<", ">long, validation<", ">short<", ">step<"})
    EXPECT_NE(steps.find(text), std::string::npos) << text;
  EXPECT_EQ(steps.find("short, validation"), std::string::npos);
  done("plot runs/long --svg time.svg --over time --metrics accuracy,grad_norm");
  const std::string time = bytes("time.svg");
  for (const char* text : {">training time, seconds<", ">accuracy<", ">gradient norm<"})
    EXPECT_NE(time.find(text), std::string::npos) << text;
  EXPECT_EQ(time.find(">loss<"), std::string::npos);
}

// 1000 points of a curve become the means of four each.
TEST_F(RunsTest, PlotThinsOutLongCurves) {
  std::string lines;
  for (int step = 1; step <= 1000; ++step)
    lines += "{\"step\":" + std::to_string(step) + ",\"loss\":1}\n";
  put("runs/long/metrics.jsonl", lines);
  done("plot runs/long --svg loss.svg --metrics loss");
  const std::string svg = bytes("loss.svg");
  const std::string path = svg.substr(svg.find(" d=\"", svg.find("class=\"curve\"")));
  EXPECT_EQ(std::count(path.begin(), path.begin() + static_cast<int64_t>(path.find("data-v")), 'L'),
            249);
}

// The values that each curve of a chart shows under the pointer, by its name.
std::map<std::string, std::string> values_of(const std::string& svg) {
  std::map<std::string, std::string> values;
  const std::string start = "data-v=\"";
  for (size_t at = svg.find(start); at != std::string::npos; at = svg.find(start, at + 1)) {
    const size_t first = at + start.size(), title = svg.find("<title>", at) + 7;
    values[svg.substr(title, svg.find('<', title) - title)] =
        svg.substr(first, svg.find('"', first) - first);
  }
  return values;
}

TEST_F(RunsTest, PlotsValidationsUnderTheirOwnName) {
  put("runs/long/metrics.jsonl",
      "{\"step\":10,\"loss\":4}\n{\"step\":10,\"val_loss\":3,\"val_loss_ema\":2}\n"
      "{\"step\":20,\"loss\":2}\n{\"step\":20,\"val_loss\":2,\"val_loss_ema\":1,"
      "\"whole_val_loss\":9,\"judge_frechet\":5,\"judge_frechet_real\":1}\n");
  const auto plotted = [&](const std::string& arguments) {
    done("plot runs/long --svg x.svg " + arguments);
    return values_of(bytes("x.svg"));
  };
  using Values = std::map<std::string, std::string>;
  EXPECT_EQ(plotted("--metrics val_loss"), (Values{{"long, validation", "10,3 20,2"},
                                                   {"long, validation, averaged", "10,2 20,1"}}));
  EXPECT_EQ(plotted("--metrics loss"), (Values{{"long, training", "10,4 20,2"},
                                               {"long, validation", "10,3 20,2"},
                                               {"long, validation, averaged", "10,2 20,1"}}));
  EXPECT_EQ(plotted("--metrics judge_frechet"),
            (Values{{"long, samples", "20,5"}, {"long, real data", "20,1"}}));
  refused(2, "plot runs/long --svg x.svg --metrics whole_val_loss", {"whole_val_loss", "info"});
}

TEST_F(RunsTest, PlotsALogarithmStepsFromOneOnAndMeans) {
  std::string lines;
  for (const auto& [step, loss] : std::map<int, std::string>{
           {10, "8"}, {20, "4"}, {30, "2"}, {40, "\"nan\""}, {50, "1"}, {90, "0"}})
    lines += fmt::format("{{\"step\":{},\"loss\":{},\"val_loss\":{}}}\n", step, loss, loss);
  put("runs/long/metrics.jsonl", lines);
  const auto plotted = [&](const std::string& arguments) {
    done("plot runs/long --svg x.svg --metrics loss " + arguments);
    return values_of(bytes("x.svg"));
  };
  EXPECT_EQ(plotted("--from 30")["long, training"], "30,2 50,1 90,0");
  EXPECT_EQ(plotted("--log")["long, training"], "10,8 20,4 30,2 50,1");
  const auto smooth = plotted("--smooth 20");
  EXPECT_EQ(smooth.at("long, training"), "10,6 20,4.6667 30,3 50,1 90,0");
  EXPECT_EQ(smooth.at("long, validation"), "10,8 20,4 30,2 50,1 90,0") << "never smoothed";
  EXPECT_NE(bytes("x.svg").find("opacity=\"0.3\""), std::string::npos) << "what was recorded, pale";
  refused(2, "plot runs/long --svg x.svg --metrics loss --from 91", {"--from", "91", "90"});
  refused(2, "plot runs/long --svg x.svg --metrics loss --from -1", {"--from", "-1"});
  refused(2, "plot runs/long --svg x.svg --metrics loss --smooth -1", {"--smooth", "-1"});
}

TEST_F(RunsTest, PlotsTwentyRuns) {
  std::string runs;
  for (int i = 0; i < 20; ++i) {
    fs::create_directories(path(fmt::format("many/{}", i)));
    put(fmt::format("many/{}/metrics.jsonl", i),
        "{\"step\":10,\"loss\":1}\n{\"step\":20,\"loss\":1}\n");
    runs += fmt::format(" many/{}", i);
  }
  done("plot" + runs + " --svg x.svg --metrics loss");
  const std::string svg = bytes("x.svg");
  std::set<std::string> looks;
  for (size_t at = svg.find("data-v="); at != std::string::npos; at = svg.find("data-v=", at + 1)) {
    const size_t group = svg.rfind("<g class=", at), end = svg.find('>', at);
    const size_t dashes = svg.find("stroke-dasharray", at);
    looks.insert(svg.substr(group, svg.find(" data-n", group) - group) +
                 (dashes < end ? svg.substr(dashes, end - dashes) : ""));
  }
  EXPECT_EQ(looks.size(), 20u);
}

TEST_F(RunsTest, PlotRefusesWhatItCannotShow) {
  refused(2, "plot runs/long --svg x.svg --metrics loss,speed", {"'speed'", "lr", "tokens_per_s"});
  refused(2, "plot runs/long --svg x.svg --over hours", {"--over", "'hours'", "time"});
  refused(2, "plot runs/long", {"--svg"});
  refused(3, "plot nowhere --svg x.svg", {"nowhere"});
  refused(3, "plot runs --svg x.svg", {"runs", "metrics.jsonl"});
  refused(6, "plot runs/long --svg nowhere/x.svg", {"nowhere/x.svg"});
  EXPECT_FALSE(exists("x.svg"));
}

}  // namespace
}  // namespace linea
