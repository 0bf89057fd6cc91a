// --init-from: weights that one attention learned, given to another.
#include "data/safetensors.h"
#include "tests/train/program.h"

namespace linea {
namespace {

class InitFrom : public ProgramTest {
 protected:
  void SetUp() override {
    ProgramTest::SetUp();
    put_text("text.txt", 2000);
    done(kText + " --attention softmax --steps 30 --lr 1e-2 --warmup 0 --out softmax");
  }
  double first_loss(const std::string& run) const {
    return nlohmann::json::parse(lines_of(bytes(run + "/metrics.jsonl")).front()).at("val_loss").get<double>();
  }
  double loss_of(const std::string& run) const {
    return nlohmann::json::parse(done("eval " + run + " --json").out).at("loss").get<double>();
  }
};

TEST_F(InitFrom, TheSameAttentionStartsWhereTheOtherEnded) {
  done("train --init-from softmax --steps 2 --out again");
  const double ended = loss_of("softmax");
  EXPECT_NEAR(first_loss("again"), ended, 1e-5);
  EXPECT_LT(ended, 3.0);  // it had learned something
}

// Positive features estimate softmax: with many of them the loss before any step is near softmax's.
TEST_F(InitFrom, APerformerStartsNearSoftmax) {
  done("train --init-from softmax --attention performer --features 512 --steps 2 --out performer");
  EXPECT_NEAR(first_loss("performer"), loss_of("softmax"), 0.02);
}

// vq and soft-vq have no 1 / sqrt(D) of their own: q's rows of qkv are scaled by it, D = 8, and no others.
TEST_F(InitFrom, CodebooksScaleTheQueriesOnce) {
  for (const std::string attention : {"vq", "soft-vq"}) {
    done("train --init-from softmax --attention " + attention +
         " --codes 4 --steps 1 --lr 1e-30 --min-lr 0 --out " + attention);
    const auto weight = [&](const std::string& run, int64_t step) {
      const auto file =
          SafetensorsFile::open(path(fmt::format("{}/checkpoints/step-{:08}/model.safetensors", run, step)));
      return file.read("blocks.0.qkv.weight").to_doubles();
    };
    const std::vector<double> before = weight("softmax", 30), after = weight(attention, 1);
    ASSERT_EQ(before.size(), size_t{48 * 16});
    for (size_t i = 0; i < before.size(); ++i)
      EXPECT_NEAR(after[i], before[i] * (i < 16 * 16 ? 1 / std::sqrt(8.0) : 1.0), 1e-6) << attention << " " << i;
    EXPECT_EQ(
        done("train --init-from " + attention + " --steps 1 --lr 1e-30 --min-lr 0 --out again-" + attention).code,
        0);
    const std::vector<double> again = weight("again-" + attention, 1);
    for (size_t i = 0; i < before.size(); ++i) EXPECT_NEAR(again[i], after[i], 1e-6) << attention << " " << i;
  }
}

TEST_F(InitFrom, WhatCannotBeIsRefused) {
  refused(3, "train --init-from softmax --dim 32 --out other", {"symbols", "32"});
  refused(3, "train --init-from nothing --out other", {"nothing", "does not exist"});
  refused(2, "train --init-from softmax --resume softmax", {"--init-from", "--resume"});
}

}  // namespace
}  // namespace linea
