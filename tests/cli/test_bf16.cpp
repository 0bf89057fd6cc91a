// Training with --dtype bf16 on a CPU.
#include <cstdlib>

#include "tensor/backend.h"
#include "tests/cli/program.h"

namespace linea {
namespace {

const std::string kWide =
    "train --task digits --size 12 --levels 4 --examples 200 --layers 1 --heads 2 --dim 64 --ffn "
    "64 "
    "--batch 2 ";

class Bf16Training : public ProgramTest {
 protected:
  void SetUp() override {
    ProgramTest::SetUp();
    if (bf16_isa() == nullptr) GTEST_SKIP() << "this processor has no kernel of bf16 products";
  }
  void TearDown() override {
    unsetenv("LINEA_ISA");
    ProgramTest::TearDown();
  }
  std::vector<double> losses(const std::string& run) const {
    std::vector<double> result;
    for (const nlohmann::json& line : metrics(run))
      if (line.contains("loss")) result.push_back(line["loss"]);
    return result;
  }
};

TEST_F(Bf16Training, IsNearFloatAndRepeatsItsBits) {
  if (kSanitized) GTEST_SKIP() << "takes a minute here; the other builds run it";
  done(kWide + "--steps 6 --out float");
  for (const std::string& isa : all_bf16_isas()) {
    setenv("LINEA_ISA", isa.c_str(), 1);
    EXPECT_NE(done("info").out.find("bf16        " + isa + " (of "), std::string::npos);
    const Outcome one = done(kWide + "--dtype bf16 --steps 6 --out " + isa);
    bool slow = isa == "FMA" || isa == "BFMMLA";
#ifdef __x86_64__
    slow = slow || (isa == "AVX512-BF16" && __builtin_cpu_is("intel"));
#endif
    EXPECT_EQ(one.err.find("not faster") != std::string::npos, slow) << one.err;
    const Outcome bench =
        done("bench train --preset nanogpt --layers 1 --batch 1 --steps 1 --warmup 0 --dtype bf16");
    EXPECT_EQ(bench.err.find("not faster") != std::string::npos, slow) << bench.err;
    done(kWide + "--dtype bf16 --steps 3 --out stopped-" + isa);
    done("train --steps 6 --resume stopped-" + isa);
    expect_same_checkpoint(isa, "stopped-" + isa, 6);
    EXPECT_NE(losses(isa), losses("float"));
    ASSERT_EQ(losses(isa).size(), losses("float").size());
    for (size_t i = 0; i < losses(isa).size(); ++i)
      EXPECT_NEAR(losses(isa)[i], losses("float")[i], 2e-3 * losses("float")[i]) << isa;
  }
  done("eval " + all_bf16_isas().front());
}

// It is chosen once: what the run saves is the choice.
TEST_F(Bf16Training, AutoIsBf16WhereThatIsFaster) {
  std::vector<std::string> isas = all_bf16_isas();
  const std::string none = all_cpu_isas().back();
  isas.push_back(none);
  for (const std::string& isa : isas) {
    setenv("LINEA_ISA", isa.c_str(), 1);
    const std::string tiny =
        "train --task copy --length 32 --layers 1 --heads 1 --dim 32 --ffn 32 --batch 2 --steps 1 ";
    const bool fast =
        isa != none &&
        done(tiny + "--dtype bf16 --out asked-" + isa).err.find("not faster") == std::string::npos;
    const std::string choice = fast ? "bf16" : "fp32";
    const Outcome chosen = done(tiny + "--dtype auto --out " + isa);
    EXPECT_NE(chosen.err.find(", length 32, " + choice + ", "), std::string::npos) << chosen.err;
    EXPECT_NE(bytes(isa + "/config.toml").find("dtype = \"" + choice + "\""), std::string::npos);
    done("train --resume " + isa + " --steps 2");
    done(tiny + "--dtype auto --reversible --out reversible-" + isa);
    EXPECT_NE(bytes("reversible-" + isa + "/config.toml").find("dtype = \"fp32\""),
              std::string::npos);
  }
}

// The smallest whose layers are rounded (32 terms): under the sanitizers, too.
TEST_F(Bf16Training, ATinyRunRepeatsItsBits) {
  const std::string tiny =
      "train --task copy --length 32 --layers 1 --heads 1 --dim 32 --ffn 32 --batch 2 ";
  done(tiny + "--steps 2 --out float");
  done(tiny + "--steps 2 --dtype bf16 --out whole");
  done(tiny + "--steps 1 --dtype bf16 --out stopped");
  done("train --steps 2 --resume stopped");
  expect_same_checkpoint("whole", "stopped", 2);
  EXPECT_NE(losses("whole"), losses("float"));
  ASSERT_EQ(losses("whole").size(), losses("float").size());
  for (size_t i = 0; i < losses("whole").size(); ++i)
    EXPECT_NEAR(losses("whole")[i], losses("float")[i], 2e-3 * losses("float")[i]);
}

TEST_F(Bf16Training, ARunContinuesOnlyInItsDtype) {
  done(kWide + "--steps 1 --out float");
  done(kWide + "--steps 1 --dtype bf16 --out half");
  refused(2, "train --resume float --steps 2 --dtype bf16",
          {"--dtype was fp32 in float", "--init-from float"});
  refused(2, "train --resume half --steps 2 --dtype fp32",
          {"--dtype was bf16 in half", "--init-from half"});
  done("train --init-from half --steps 1 --dtype fp32 --out other");
}

TEST_F(Bf16Training, NamesItsKernelInACheckpoint) {
  done(kWide + "--steps 1 --dtype bf16 --out run");
  setenv("LINEA_ISA", "FMA", 1);
  if (all_bf16_isas().size() < 2) return;
  const Outcome resumed = done("train --resume run --steps 2");
  EXPECT_NE(resumed.err.find(" with FMA"), std::string::npos) << resumed.err;
}

TEST_F(Bf16Training, IsRefusedWithoutAKernel) {
  refused(2, "train --task digits --dtype bf16 --reversible --steps 1 --out run",
          {"--reversible", "--dtype bf16"});
  if (all_cpu_isas().back() != "128-bit") GTEST_SKIP() << "this build has wider vectors only";
  setenv("LINEA_ISA", "128-bit", 1);
  refused(2, kWide + "--steps 1 --dtype bf16 --out run", {"--dtype bf16", "128-bit", "fp32"});
  EXPECT_FALSE(exists("run"));
  done(kWide + "--steps 1 --out run");
  done("sample run --dtype bf16 --count 1");
}

}  // namespace
}  // namespace linea
