// LINEA_ISA: which of the CPU kernels that the program holds are used.
#include <cstdlib>

#include "tensor/backend.h"
#include "tests/cli/program.h"

namespace linea {
namespace {

class InstructionSets : public ProgramTest {
 protected:
  void TearDown() override {
    unsetenv("LINEA_ISA");
    ProgramTest::TearDown();
  }
};

TEST_F(InstructionSets, EveryInstructionSetTrainsTheSameUpToRounding) {
  if (all_cpu_isas().size() < 2)
    GTEST_SKIP() << "this build, or this processor, has " << cpu_isa() << " only";
  std::vector<double> first;
  for (const std::string& name : all_cpu_isas()) {
    setenv("LINEA_ISA", name.c_str(), 1);
    EXPECT_NE(done("info").out.find("isa         " + name + " (of "), std::string::npos) << name;
    done(kDigits + " --attention performer --features 16 --steps 5 --out " + name);
    std::vector<double> losses;
    for (const nlohmann::json& line : metrics(name))
      if (line.contains("loss")) losses.push_back(line["loss"]);
    ASSERT_FALSE(losses.empty());
    if (first.empty()) first = losses;
    ASSERT_EQ(losses.size(), first.size());
    for (size_t i = 0; i < losses.size(); ++i) EXPECT_NEAR(losses[i], first[i], 2e-5) << name;
  }
  // They do round differently, and a resumed run reports the change.
  setenv("LINEA_ISA", all_cpu_isas().back().c_str(), 1);
  const Outcome resumed = done("train --steps 6 --resume " + all_cpu_isas().front());
  const std::string change =
      fmt::format("isa was {}, is {}", all_cpu_isas().front(), all_cpu_isas().back());
  EXPECT_NE(resumed.err.find(change), std::string::npos) << resumed.err;
}

TEST_F(InstructionSets, AnUnknownNameIsRefused) {
  setenv("LINEA_ISA", "MMX", 1);
  for (const char* line : {"info", "train --task digits --steps 1 --out run", "verify"})
    refused(2, line, {"LINEA_ISA is 'MMX'", all_cpu_isas().back().c_str()});
  EXPECT_FALSE(exists("run"));
}

}  // namespace
}  // namespace linea
