// What mechanisms learn to recall.
#include "tests/cli/program.h"
#include "tests/sanitized.h"

namespace linea {
namespace {

class Retrieval : public ProgramTest {
 protected:
  double accuracy(const std::string& attention, int seed) {
    const std::string run = attention + std::to_string(seed);
    done(
        "train --task retrieval --associations 8 --repeat-keys --layers 1 --heads 1 --dim 4 "
        "--batch 32 --steps 1000 --lr 0.02 --min-lr 1e-4 --warmup 50 --eval-every 0 --threads 1 "
        "--attention " +
        attention + " --seed " + std::to_string(seed) + " --out " + run);
    return json_lines(bytes(run + "/metrics.jsonl")).back().at("whole_val_accuracy");
  }
};

// Twice as many associations as a key has numbers, of which later ones replace earlier ones: a state
// that is corrected holds more of them than one that only sums.
TEST_F(Retrieval, CorrectedStatesRecallMore) {
  if (kSanitized) GTEST_SKIP() << "thousands of steps in all";
  const double sums = accuracy("ssd", 4);
  for (const char* corrected : {"gdn", "kda"})
    EXPECT_GT(accuracy(corrected, 4), sums + 0.1) << corrected;
}

}  // namespace
}  // namespace linea
