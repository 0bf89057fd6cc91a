// LINEA_VECTORS: which of the CPU kernels that the program holds are used.
#include <cstdlib>

#include "tensor/kernels.h"
#include "tests/train/program.h"

namespace linea {
namespace {

class Vectors : public ProgramTest {
 protected:
  void TearDown() override {
    unsetenv("LINEA_VECTORS");
    ProgramTest::TearDown();
  }
};

TEST_F(Vectors, EachKindOfKernelsLearnsTheSameToRounding) {
  if (all_cpu_vectors().size() < 2)
    GTEST_SKIP() << "this build, or this processor, has " << cpu_vectors() << " only";
  std::vector<double> first;
  for (const std::string& name : all_cpu_vectors()) {
    setenv("LINEA_VECTORS", name.c_str(), 1);
    EXPECT_NE(done("info").out.find("vectors     " + name + " (of "), std::string::npos) << name;
    done(kDigits + " --attention performer --features 16 --steps 5 --out " + name);
    std::vector<double> losses;
    for (const nlohmann::json& line : metrics(name))
      if (line.contains("loss")) losses.push_back(line["loss"]);
    ASSERT_FALSE(losses.empty());
    if (first.empty()) first = losses;
    ASSERT_EQ(losses.size(), first.size());
    for (size_t i = 0; i < losses.size(); ++i) EXPECT_NEAR(losses[i], first[i], 2e-5) << name;
  }
  // They do round differently, and a run that goes on with others says so.
  setenv("LINEA_VECTORS", all_cpu_vectors().back().c_str(), 1);
  const Outcome resumed = done("train --steps 6 --resume " + all_cpu_vectors().front());
  const std::string change =
      fmt::format("vectors was {}, is {}", all_cpu_vectors().front(), all_cpu_vectors().back());
  EXPECT_NE(resumed.err.find(change), std::string::npos) << resumed.err;
}

TEST_F(Vectors, AnUnknownNameIsRefused) {
  setenv("LINEA_VECTORS", "MMX", 1);
  for (const char* line : {"info", "train --task digits --steps 1 --out run", "verify"})
    refused(2, line, {"LINEA_VECTORS is 'MMX'", all_cpu_vectors().back().c_str()});
  EXPECT_FALSE(exists("run"));
}

}  // namespace
}  // namespace linea
