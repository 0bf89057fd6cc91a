// linea attend on JSON, and what --show prints: the numbers of the lessons, recomputed by
// fractions.
#include "nn/verify/show.h"
#include "tests/cli/attend_program.h"

namespace linea::attend_tests {
namespace {

const std::string kToy =
    R"({"q": [[0,0],[0,1],[1,0]], "k": [[0,0],[1,0],[0,2]], "v": [[1,0],[0,1],[1,1]]})";

class AttendJson : public Attend {
 public:
  // The words of the output, one blank apart.
  std::string shown(const std::string& flags, const std::string& json) const {
    put("in.json", json);
    const Outcome outcome = done("attend --in in.json" + flags);
    EXPECT_EQ(outcome.err, "");
    return fmt::format("{}", fmt::join(words_of(outcome.out), " "));
  }
  void bad_json(const std::string& json, std::initializer_list<std::string> fragments) const {
    put("in.json", json);
    refused(3, "attend --in in.json", fragments);
  }
};

TEST_F(AttendJson, IsTheSameAsAFileOfTensors) {
  put("in.json", kToy);
  done("attend --causal --in in.json --out one.safetensors");
  save("in.safetensors", {{"q", {{1, 1, 3, 2}, {0, 0, 0, 1, 1, 0}}},
                          {"k", {{1, 1, 3, 2}, {0, 0, 1, 0, 0, 2}}},
                          {"v", {{1, 1, 3, 2}, {1, 0, 0, 1, 1, 1}}}});
  done("attend --causal --in in.safetensors --out two.safetensors");
  EXPECT_EQ(bytes("one.safetensors"), bytes("two.safetensors"));
}

TEST_F(AttendJson, ShowsWeights) {
  EXPECT_EQ(shown(" --attention softmax --causal --show weights", kToy),
            "weights 1 0 0 0.500000 0.500000 0 0.248255 0.503490 0.248255 "
            "y 1 0 0.500000 0.500000 0.496510 0.751745");
}

TEST_F(AttendJson, ShowsFeaturesAndTheState) {
  EXPECT_EQ(shown(" --show features,state", kToy),
            "phi(q) 1 1 1 2 2 1 phi(k) 1 1 2 1 1 3 S 2 3 4 4 z 4 5 "
            "y 0.666667 0.777778 0.714286 0.785714 0.615385 0.769231");
}

TEST_F(AttendJson, ShowsTheStepsOfEachForm) {
  const std::string y = "y 1 0 0.428571 0.571429 0.615385 0.769231";
  EXPECT_EQ(shown(" --causal --form recurrent --show steps", kToy),
            "t = 1 S 1 0 1 0 z 1 1 y 1 0 t = 2 S 1 2 1 1 z 3 2 y 0.428571 0.571429 "
            "t = 3 S 2 3 4 4 z 4 5 y 0.615385 0.769231 " +
                y);
  EXPECT_EQ(shown(" --causal --form chunked --chunk 2 --show steps", kToy),
            "positions 1 to 2 S before 0 0 0 0 z before 0 0 phi(q) S 0 0 0 0 sum a v 2 0 3 4 "
            "phi(q).z 0 0 sum a 2 7 y 1 0 0.428571 0.571429 "
            "positions 3 to 3 S before 1 2 1 1 z before 3 2 phi(q) S 3 5 sum a v 5 5 "
            "phi(q).z 8 sum a 5 y 0.615385 0.769231 " +
                y);
  EXPECT_EQ(shown(" --causal --form quadratic --show steps", kToy),
            "t = 1 weights 1 0 0 y 1 0 t = 2 weights 0.428571 0.571429 0 y 0.428571 0.571429 "
            "t = 3 weights 0.230769 0.384615 0.384615 y 0.615385 0.769231 " +
                y);
}

TEST_F(AttendJson, ShowsWhatRulesThatCorrectWrite) {
  const std::string write =
      R"({"q": [[40,-40],[-40,40],[40,-40]], "k": [[40,-40],[-40,40],[40,-40]],
          "v": [[16],[16],[6]], "gates": [[0.5,0.5],[0.5,0.5],[0.5,0.5]]})";
  EXPECT_EQ(shown(" --rule gated-delta --causal --form recurrent --show steps", write),
            "t = 1 x 8 S 8 0 y 8 t = 2 x 8 S 4 8 y 8 t = 3 x 2 S 4 4 y 4 y 8 8 4");
}

TEST_F(AttendJson, PrintsGradients) {
  EXPECT_EQ(shown(" --causal", kToy.substr(0, kToy.size() - 1) + R"(, "dy": [[0,0],[0,0],[1,0]]})"),
            "y 1 0 0.428571 0.571429 0.615385 0.769231 dq 0 0 0 0 -0.035503 0.071006 "
            "dk 0.059172 0.029586 -0.094675 -0.047337 0.059172 0.029586 "
            "dv 0.230769 0 0.384615 0 0.384615 0");
}

// Matrices of several heads have names of their own, and every attention can be shown.
TEST_F(AttendJson, NamesHeads) {
  const std::string both = R"({"q": [[[1]],[[2]]], "k": [[[1]],[[2]]], "v": [[[3]],[[4]]]})";
  EXPECT_EQ(shown(" --attention softmax --causal --show state", both),
            "keys[0,0] 1 keys[0,1] 2 values[0,0] 3 values[0,1] 4 y[0,0] 3 y[0,1] 4");
}

TEST_F(AttendJson, RefusesWhatIsNoArray) {
  bad_json("[1", {"in.json", "no JSON object"});
  bad_json("[1]", {"no JSON object"});
  bad_json(R"({"q": [[0,0],[1]]})", {"q[1]", "[1]", "array of 2"});
  bad_json(R"({"q": [[0,"a"]]})", {"q[0][1]", "a number"});
  bad_json(R"({"q": [0,[1]]})", {"q[1]", "a number"});
  bad_json(R"({"q": [[[[[1]]]]]})", {"more than 4 axes"});
  bad_json(R"({"q": [[0,0]], "k": [[0,0]], "v": [[]]})", {"v is [1,1,1,0]", "no elements"});
  bad_json(R"({"q": [[0,0]], "k": [[0,0],[1,1]], "v": [[1]]})", {"k is [1,1,2,2]", "[1,1,1,2]"});
  bad_json(R"({"q": [[1e999]]})", {"in.json"});
}

TEST_F(AttendJson, RefusesWhatCannotBeShown) {
  put("in.json", kToy);
  refused(2, "attend --in in.json --show colors", {"'colors'", "features"});
  refused(2, "attend --attention softmax --in in.json --show features", {"softmax", "has none"});
  refused(2, "attend --in in.json --show steps", {"add --causal"});
  refused(2, "attend --attention induced --in in.json --show state", {"no state"});
  put("in.json", R"({"q": [[0,0]], "k": [[0,0]], "v": [[1]], "gate": [0.5]})");
  refused(2, "attend --rule gated --causal --in in.json --show steps", {"--form recurrent"});
  save("long.safetensors", {{"q", normal({1, 1, 65, 1}, 1)},
                            {"k", normal({1, 1, 65, 1}, 2)},
                            {"v", normal({1, 1, 65, 70}, 3)}});
  refused(2, "attend --in long.safetensors --show weights", {"at most 64", "65"});
  refused(2, "attend --in long.safetensors", {"4550 numbers", "--out"});
}

TEST_F(AttendJson, NumbersAreWholeOrHaveSixDecimals) {
  EXPECT_EQ(attend::number_text(3 + 4e-7), "3");
  EXPECT_EQ(attend::number_text(3 + 6e-7), "3.000001");
  EXPECT_EQ(attend::number_text(-4e-7), "0");
  EXPECT_EQ(attend::number_text(-1.0 / 3), "-0.333333");
}

}  // namespace
}  // namespace linea::attend_tests
