// linea lab page: the page of a run, made of its record alone.
#include "tests/cli/lab_findings.h"

namespace linea {
namespace {

class LabPage : public ProgramTest {
 protected:
  nlohmann::json record(const std::string& name) const {
    return nlohmann::json::parse(bytes("lab/data/" + name + ".json"));
  }
  nlohmann::json figures(const std::string& name) const { return record(name).at("figures"); }
  std::string findings() const { return lab_findings(path("lab")); }
  static double sum(const nlohmann::json& row) {
    double all = 0;
    for (const auto& x : row) all += x.get<double>();
    return all;
  }
};

TEST_F(LabPage, ShowsARunOfImages) {
  done(kDigits + " --steps 20 --attention performer --features 8 --out mine");
  EXPECT_EQ(done("lab page mine --out lab").out, "lab/run-mine.html\n");
  EXPECT_EQ(findings(), "");
  const std::string page = bytes("lab/run-mine.html");
  for (const char* id : {"w16", "w17", "w18", "w19", "w20"})
    EXPECT_NE(page.find("<figure class=\"figure\" id=\"" + std::string(id)), std::string::npos)
        << id;
  EXPECT_NE(bytes("lab/index.html").find("run-mine.html"), std::string::npos);
  done("lab render --out lab");
  EXPECT_EQ(bytes("lab/run-mine.html"), page);
  const nlohmann::json all = figures("run-mine");
  // The bits are those of --nll-map.
  const std::string map = done("sample mine --nll-map --count 1 --out map.png").out;
  EXPECT_EQ(map.find(fmt::format("test:0: {:.4f} ", all["w17"]["images"][0]["mean"].get<double>())),
            0u)
      << map;
  const nlohmann::json image = all["w18"]["images"][1];
  EXPECT_EQ(image["completions"].size(), 6u);
  EXPECT_EQ(image["completions"][0].size() + 6 * 12, image["tokens"].size());
  EXPECT_NE(image["completions"][0], image["completions"][1]);
  EXPECT_EQ(all["w19"]["tokens"].size(), 144u);
  const nlohmann::json head = all["w20"]["layers"][0];
  EXPECT_EQ(head["state"].size(), 8u);
  for (const char* kind : {"weights", "softmax"})
    for (size_t i = 0; i < 64; ++i) {
      EXPECT_NEAR(sum(head[kind][i]), 1, 1e-2) << kind << " row " << i;
      for (size_t j = i + 1; j < 64; ++j) EXPECT_EQ(head[kind][i][j], 0) << kind << i << " " << j;
    }
}

// Softmax's weights are its own; other seeds complete otherwise; a second run of the same name has a
// page too.
TEST_F(LabPage, TellsRunsApart) {
  done(kDigits + " --steps 2 --attention softmax --out a/mine");
  done(
      "train --task digits --size 12 --levels 4 --layers 2 --heads 2 --dim 16 --ffn 32 --batch 2 "
      "--examples 200 --steps 2 --attention softmax/linear --out b/mine");
  EXPECT_EQ(done("lab page a/mine b/mine --out lab").out,
            "lab/run-mine.html\nlab/run-mine-2.html\n");
  EXPECT_EQ(findings(), "");
  EXPECT_EQ(figures("run-mine")["w20"]["layers"][0]["apart"], 0);
  EXPECT_EQ(figures("run-mine-2")["w20"]["layers"][0]["apart"], 0);
  EXPECT_GT(figures("run-mine-2")["w20"]["layers"][1]["apart"], 0);
  const nlohmann::json before = figures("run-mine")["w18"];
  EXPECT_EQ(done("lab page a/mine --out lab --seed 2 --on val:3").out, "lab/run-mine.html\n");
  EXPECT_EQ(figures("run-mine")["w18"]["images"][0]["name"], "val:3");
  EXPECT_NE(figures("run-mine")["w18"], before);
}

TEST_F(LabPage, ShowsARunOfText) {
  put("text.txt", [] {
    std::string text;
    for (int i = 0; i < 100; ++i) text += "if (a < b && c) </script> ";
    return text;
  }());
  const std::string run = "<img src=x onerror=alert(1)>";
  Words train = words_of(kText + " --steps 2 --out");
  train.push_back(run);
  done(train);
  done(Words{"lab", "page", run, "--out", "lab", "--on", "a </script> b"});
  EXPECT_EQ(findings(), "");
  const std::string name = "run-_img_src=x_onerror=alert_1__",
                    page = bytes("lab/" + name + ".html");
  EXPECT_EQ(page.find("<img src=x"), std::string::npos);
  EXPECT_NE(page.find("&lt;img src=x onerror=alert(1)&gt;"), std::string::npos);
  size_t scripts = 0;
  for (size_t at = 0; (at = page.find("</script>", at)) != std::string::npos; ++at) ++scripts;
  EXPECT_EQ(scripts, 1u);
  EXPECT_EQ(figures(name)["w17"]["bits"].size(), 13u);
  EXPECT_EQ(figures(name)["w18"]["continuations"].size(), 3u);
  refused(2, Words{"lab", "page", run, "--out", "lab", "--on", std::string(29, 'a')}, {"29", "16"});
  refused(3, Words{"lab", "page", run, "--out", "lab", "--on", "Z"}, {"Z"});
}

// Models that sample nothing have what is left of a page.
TEST_F(LabPage, ShowsRunsThatAnswer) {
  done(kDigits + " --predict class --steps 2 --attention linformer --slots 4 --out class");
  done(
      "train --task retrieval --associations 5 --layers 1 --heads 1 --dim 8 --batch 2 --steps 2 "
      "--out pairs");
  done("lab page class pairs --out lab");
  EXPECT_EQ(findings(), "");
  EXPECT_EQ(figures("run-class")["w17"]["bits"].size(), 1u);
  EXPECT_TRUE(figures("run-class").contains("w20"));
  EXPECT_FALSE(figures("run-pairs").contains("w20"));
  refused(2, "lab page class --out lab --on test:0", {"text"});
  refused(2, "lab page . --out lab", {"no run"});
}

}  // namespace
}  // namespace linea
