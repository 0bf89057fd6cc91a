// Twelve layers of small width, where features that are exactly 0 or overflow would end a run:
// nothing in the record is ever NaN or infinite.
#include <cmath>

#include "tests/cli/program.h"

namespace linea {
namespace {

class Deep : public ProgramTest {};

TEST_F(Deep, EveryStepIsFinite) {
  std::string text;
  for (int i = 0; i < 400; ++i)
    text += fmt::format("the {} of {} is {}. ", i, i * i % 97, i * 7 % 31);
  put("text.txt", text);
  for (const std::string attention : {"linear", "performer --features 16"}) {
    const std::string name = attention.substr(0, 6);
    const Outcome outcome = linea(
        "train --task text --data text.txt --length 32 --layers 12 --heads 2 --dim 16 --ffn 32 "
        "--batch 4 --lr 3e-3 --warmup 20 --attention " +
        attention + (kSanitized ? " --steps 60" : " --steps 300") + " --json --out " + name);
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    double last = 0;
    for (const std::string& line : lines_of(outcome.out)) {
      const nlohmann::json record = parse_json(line);
      for (const auto& [key, value] : record.items())
        ASSERT_TRUE(value.is_number() && std::isfinite(value.get<double>())) << key << ": " << line;
      if (record.contains("loss")) last = record["loss"].get<double>();
    }
    // It learns, too: guessing among its 27 tokens costs 3.3.
    EXPECT_LT(last, kSanitized ? 3.2 : 2.5) << attention;
  }
}

}  // namespace
}  // namespace linea
