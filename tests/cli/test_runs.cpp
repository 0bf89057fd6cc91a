// What is read from the folders of finished runs: linea info RUN, runs and plot.
#include <sys/stat.h>
#include <unistd.h>

#include <regex>

#include "tests/cli/program.h"
#include "train/run/run_lock.h"

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

// A run that has not saved yet: what there is, of both kinds of tasks.
TEST_F(RunsTest, InfoDescribesARunWithoutACheckpoint) {
  for (const std::string& name : names_in("runs/long/checkpoints"))
    remove("runs/long/checkpoints/" + name);
  const std::string text = done("info runs/long").out;
  for (const char* part : {"step        0 of 20: no checkpoint yet", "state       died",
                           "attention   linear --feature elu", "training    step 20: loss",
                           "validation  step 20: loss", "tokens      ", "task = \"copy\""})
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  EXPECT_EQ(text.find("parameters"), std::string::npos) << text;
  put("runs/long/metrics.jsonl", "");
  const nlohmann::json run = json_lines(done("info runs/long --json").out).at(0);
  EXPECT_TRUE(run["parameters"].is_null() && run["validation"].is_null());
  EXPECT_EQ(run["config"]["dim"], 16);

  put_text("text.txt", 2000);
  done(kText + " --steps 1 --out words");
  for (const std::string& name : names_in("words/checkpoints")) remove("words/checkpoints/" + name);
  EXPECT_NE(done("info words").out.find("no checkpoint yet"), std::string::npos);
  EXPECT_TRUE(json_lines(done("info words --json").out).at(0)["vocab_size"].is_null());
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
  append("runs/long", "{\"step\":20,\"lr\":1,\"elapsed_s\":65}\n");
  const Words table = lines_of(done("runs runs").out);  // rows of two lines: the second is indented
  ASSERT_EQ(table.size(), 6u);
  EXPECT_EQ(words_of(table[0]),
            words_of("run state task step time val loss bits rate batch tokens/s params"));
  EXPECT_EQ(words_of(table[1]), words_of("date attention"));
  // Its last step was not validated.
  EXPECT_EQ(table[2].rfind("below/short  stopped   copy    10", 0), 0u) << table[2];
  EXPECT_EQ(table[4].rfind("long         finished  copy    20  1m05s  ", 0), 0u) << table[4];
  const Words row = words_of(table[4]);
  EXPECT_EQ(Words(row.begin() + 7, row.begin() + 9), (Words{"0.001", "2"}));  // rate, batch
  EXPECT_NE(table[3].find("softmax"), std::string::npos) << table[3];
  for (const std::string& line : table) EXPECT_LE(line.size(), 100u) << line;

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
  EXPECT_EQ(runs[1]["val_bits"], info["validation"]["val_bits"]);
  EXPECT_EQ(runs[1]["elapsed_s"], 65);
  EXPECT_EQ(runs[1]["task"], "copy");
  EXPECT_EQ(runs[1]["lr"], 0.001);
  EXPECT_EQ(runs[1]["batch"], 2);
  for (const auto& [key, value] : runs[1].items())
    EXPECT_EQ(listed("runs --sort " + key).size(), 2u) << key;
  EXPECT_EQ(listed("runs --sort step")[0]["run"], "long");
  EXPECT_EQ(listed("runs --sort val_loss")[0]["run"], "long");
  EXPECT_EQ(listed("runs --sort attention")[0]["run"], "long");
  EXPECT_EQ(listed("runs/long")[0]["run"], "runs/long");
}

TEST_F(RunsTest, LeavesOutDamagedRuns) {
  put("runs/long/config.toml", "task = 3");
  const Outcome outcome = done("runs runs");
  EXPECT_EQ(outcome.out.find("long"), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find("below/short"), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.err.find("runs/long/config.toml"), std::string::npos) << outcome.err;
  EXPECT_NE(outcome.err.find("left out"), std::string::npos) << outcome.err;
}

// The lock of a run's folder, as linea train holds it.
TEST_F(RunsTest, TellsRunningFinishedStoppedAndDiedRunsApart) {
  const auto state = [&] { return json_lines(done("runs runs/long --json").out).at(0)["state"]; };
  EXPECT_EQ(state(), "finished");
  {
    const RunLock lock(path("runs/long"));
    EXPECT_EQ(state(), "running");
    EXPECT_NE(done("info runs/long").out.find("state       running"), std::string::npos);
  }
  const std::string metrics = bytes("runs/long/metrics.jsonl");
  put("runs/long/metrics.jsonl",
      std::regex_replace(metrics, std::regex(R"(\{"step":20,"val_loss"[^\n]*\n)"), ""));
  EXPECT_EQ(state(), "stopped") << "before its last validation";
  put("runs/long/metrics.jsonl", metrics);
  const std::string config = bytes("runs/long/config.toml");
  const size_t steps = config.find("steps = 20");
  put("runs/long/config.toml", config.substr(0, steps) + "steps = 40" + config.substr(steps + 10));
  EXPECT_EQ(state(), "stopped");
  put("runs/long/config.toml", std::regex_replace(bytes("runs/long/config.toml"),
                                                  std::regex("early_stop = 0"), "early_stop = 1"));
  append("runs/long", "{\"step\":19,\"val_loss\":1,\"val_tokens\":1}\n");
  EXPECT_EQ(state(), "stopped");
  append("runs/long", "{\"step\":20,\"val_loss\":2,\"val_tokens\":1}\n");
  EXPECT_EQ(state(), "finished") << "early";
  append("runs/long", "{\"step\":30,\"loss\":1}\n");
  EXPECT_EQ(state(), "died");
  EXPECT_EQ(json_lines(done("info runs/long --json").out).at(0)["state"], "died");
}

TEST_F(RunsTest, ShowsTheSettingsInWhichTwoRunsDiffer) {
  const Words table = lines_of(done("runs --diff runs/long runs/below/short").out);
  EXPECT_EQ(words_of(table.at(0)), words_of("setting runs/long runs/below/short"));
  const auto rows = json_lines(done("runs --diff runs/long runs/below/short --json").out);
  ASSERT_EQ(rows.size() + 1, table.size());
  nlohmann::json found;
  for (const nlohmann::json& row : rows) found[row["setting"].get<std::string>()] = row;
  EXPECT_EQ(found["steps"]["a"], 20);
  EXPECT_EQ(found["steps"]["b"], 10);
  EXPECT_EQ(found["attention"]["b"], "softmax");
  EXPECT_EQ(found["feature"]["a"], "elu");
  EXPECT_TRUE(found["feature"]["b"].is_null());  // softmax has none
  EXPECT_FALSE(found.contains("dim"));
  const auto back = json_lines(done("runs --json --diff runs/below/short runs/long").out);
  EXPECT_EQ(back.size(), rows.size());
  EXPECT_EQ(done("runs --diff runs/long runs/long").out, "the settings are equal\n");
  EXPECT_EQ(done("runs --json --diff runs/long runs/long").out, "");
  refused(2, "runs --diff runs/long", {"--diff", "two runs"});
  refused(2, "runs --diff runs/long runs/long runs/long", {"--diff", "two runs, not 3"});
  refused(2, "runs runs --diff runs/long runs/long", {"--diff", "FOLDER"});
  refused(2, "runs", {"FOLDER is required"});
  refused(3, "runs --diff runs/long runs", {"runs is not the folder of a run"});
}

// A folder without permissions, a link in a circle, one to nowhere, a socket's name, a file.
TEST_F(RunsTest, PassesByWhatCannotBeRead) {
  fs::create_directories(path("runs/closed/in"));
  fs::create_directory_symlink("..", path("runs/circle"));
  fs::create_directory_symlink("nowhere", path("runs/broken"));
  ASSERT_EQ(mkfifo(path("runs/pipe").c_str(), 0600), 0);
  put("runs/file", "text");
  fs::permissions(path("runs/closed"), fs::perms::none);
  const Outcome outcome = done("runs runs --json");
  EXPECT_EQ(json_lines(outcome.out).size(), 2u);
  if (geteuid() != 0) {
    EXPECT_EQ(outcome.err, "linea: 1 folder could not be read (runs/closed: Permission denied)\n");
    fs::remove_all(path("runs/long"));
    fs::remove_all(path("runs/below"));
    refused(3, "runs runs", {"no run in runs", "1 folder could not be read"});
  }
  fs::permissions(path("runs/closed"), fs::perms::owner_all);
}

// As a user whom permissions bind.
TEST_F(RunsTest, CountsTheFoldersThatItMayNotRead) {
  if (geteuid() != 0) GTEST_SKIP() << "PassesByWhatCannotBeRead does this for a plain user";
  if (std::system("command -v setpriv >/dev/null") != 0) GTEST_SKIP() << "setpriv is missing";
  fs::create_directories(path("runs/closed"));
  fs::create_directories(path("runs/also"));
  for (const char* name : {"runs/closed", "runs/also"})
    fs::permissions(path(name), fs::perms::none);
  fs::permissions(path(""), fs::perms::others_all, fs::perm_options::add);
  const std::string nobody = "cd '" + path("") + "' && setpriv --reuid 65534 --clear-groups ";
  if (std::system((nobody + "test -x '" LINEA_PROGRAM "'").c_str()) != 0)
    GTEST_SKIP() << "another user may not run the program";
  const std::string command = nobody + "'" LINEA_PROGRAM "' runs runs --json >out 2>err";
  put("out", "");
  put("err", "");
  EXPECT_EQ(std::system(command.c_str()), 0) << bytes("err");
  EXPECT_EQ(json_lines(bytes("out")).size(), 2u);
  EXPECT_NE(bytes("err").find("2 folders could not be read (the first is "), std::string::npos)
      << bytes("err");
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
  fs::create_directories(path("empty"));
  refused(3, "plot empty --svg x.svg", {"empty", "metrics.jsonl"});
  refused(6, "plot runs/long --svg nowhere/x.svg", {"nowhere/x.svg"});
  EXPECT_FALSE(exists("x.svg"));
}

}  // namespace
}  // namespace linea
