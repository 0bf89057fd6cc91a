// linea verify: which checks run, and defects that they must find.
#include "tests/cli/program.h"

namespace linea {
namespace {

class Verify : public ProgramTest {};

TEST_F(Verify, RunsTheChecksThatAreAskedFor) {
  const std::vector<nlohmann::json> lines = json_lines(
      done("verify --attention linear --feature exp --rule gated --check causality --quick --json")
          .out);
  ASSERT_EQ(lines.size(), 2u);
  for (const nlohmann::json& line : lines) {
    EXPECT_EQ(line["attention"], "linear --feature exp --rule gated");
    EXPECT_EQ(line["check"].get<std::string>().rfind("causality: ", 0), 0u);
    EXPECT_EQ(line["passed"], true);
  }
}

// A defect that is found is a success, one that is not is none.
TEST_F(Verify, FindsDefects) {
  const std::string linear = "verify --attention linear --feature elu --rule sum --quick ";
  EXPECT_EQ(linea(linear + "--break padding --check padding").code, 0);
  const Outcome missed = linea(linear + "--break padding --check two");
  EXPECT_EQ(missed.code, 4);
  EXPECT_NE(missed.err.find("1 checks, 0 failed: NOT caught"), std::string::npos) << missed.err;
}

TEST_F(Verify, RefusesWhatIsNoDefect) {
  refused(2, "verify --break redraw", {"--break redraw needs --attention performer"});
  refused(2, "verify --attention linear --break redraw", {"of --attention performer alone"});
  refused(2, "verify --attention linear --feature elu --break stabilizer", {"--feature exp"});
  refused(2, "verify --attention linear --rule delta --break future", {"not causal by definition"});
  refused(2, "verify --attention linear --break typo", {"--break", "gradient"});
  refused(2, "verify --attention softmax --check nothing", {"--check nothing", "no check"});
  refused(2, "verify --feature elu", {"--attention"});
  refused(2, "verify --attention softmax --feature elu", {"--feature", "softmax"});
}

}  // namespace
}  // namespace linea
