// What linea attend writes and says: defaults, tables that it draws, the tensors of --out, and what
// it ignores.
#include "tests/cli/attend_program.h"

namespace linea::attend_tests {
namespace {

TEST_F(Attend, TheFeatureMapHasADefault) {
  const Arrays linear = inputs_for({"linear", "elu"}),
               performer = inputs_for({"performer", "positive"});
  EXPECT_EQ(attend("", linear).at("y").values,
            attend(" --attention linear --feature elu", linear).at("y").values);
  EXPECT_EQ(attend(" --attention performer", performer).at("y").values,
            attend(" --attention performer --feature positive", performer).at("y").values);
}

TEST_F(Attend, AWrittenOmegaReproducesTheResult) {
  const Arrays in = without(inputs_for({"performer", "positive"}), "omega");
  const std::string flags = " --attention performer --feature hyperbolic --causal";
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (const char* projection : {"iid", "orthogonal", "stratified", "fixed-norm"}) {
      SCOPED_TRACE(projection);
      const Arrays sampled =
          attend(flags + " --features 6 --seed 3 --projection " + projection, in, dtype);
      EXPECT_TRUE((sampled.at("omega").shape == Shape{2, 6, 4}));
      Arrays fed = in;
      fed["omega"] = sampled.at("omega");
      const Arrays again = attend(flags, fed, dtype);
      for (const auto& [name, array] : sampled)
        EXPECT_EQ(array.values, again.at(name).values) << name;
    }
  }
  const Numbers orthogonal = attend(flags + " --features 6", in).at("omega").values;
  EXPECT_EQ(attend(flags + " --features 6 --seed 1 --projection orthogonal", in).at("omega").values,
            orthogonal);
  EXPECT_NE(attend(flags + " --features 6 --seed 2", in).at("omega").values, orthogonal);
  EXPECT_NE(attend(flags + " --features 6 --projection iid", in).at("omega").values, orthogonal);
  EXPECT_TRUE((attend(flags, in).at("omega").shape == Shape{2, 64, 4}));
}

TEST_F(Attend, SigmaMayComeFromAFlag) {
  const Arrays in = inputs_for({"soft-vq", ""});
  const Arrays given = attend(" --attention soft-vq", in);
  const Arrays flagged =
      attend(" --attention soft-vq --sigma 0.8125 --codes 6", without(in, "sigma"));
  for (const auto& [name, array] : given) EXPECT_EQ(array.values, flagged.at(name).values) << name;
  Arrays one = in;
  one["sigma"].values = {1};
  EXPECT_EQ(attend(" --attention soft-vq", without(in, "sigma")).at("y").values,
            attend(" --attention soft-vq", one).at("y").values);
}

TEST_F(Attend, WritesOnlyTheApplicableTensors) {
  const auto names = [&](const std::string& flags, const Arrays& in) {
    Words result;
    for (const auto& [name, array] : attend(flags, in)) result.push_back(name);
    return result;
  };
  const Mechanism soft{"soft-vq", ""}, gated{"linear", "elu", "gated"};
  EXPECT_EQ(names("", without(inputs_for({"linear", "elu"}), "dy")), (Words{"y"}));
  EXPECT_EQ(names(soft.flags(), inputs_for(soft)),
            (Words{"dcodebook", "dk", "dq", "dsigma", "dv", "y"}));
  EXPECT_EQ(names(soft.flags(), without(inputs_for(soft), "dy")), (Words{"y"}));
  EXPECT_EQ(names(gated.flags() + " --causal", inputs_for(gated)),
            (Words{"dgate", "dk", "dq", "dv", "y"}));
  EXPECT_EQ(names(" --attention vq", inputs_for({"vq", ""})), (Words{"dk", "dq", "dv", "y"}));
}

TEST_F(Attend, FullyMaskedRowsAreZero) {
  Arrays in = inputs_for({"linear", "square"});
  for (double& value : in.at("k").values) value = 0;
  for (const std::string form : {"quadratic", "chunked"})
    for (const auto& [name, array] : attend(" --feature square --causal --form " + form, in))
      EXPECT_EQ(array.values, Numbers(array.values.size())) << form << " " << name;
  EXPECT_EQ(attend(" --feature square --causal --form recurrent", without(in, "dy")).at("y").values,
            Numbers(in.at("v").values.size()));
}

TEST_F(Attend, NamesUnusedTensors) {
  Arrays in = inputs_for({"linear", "elu", "delta"});
  in["surplus"] = {{2}, {std::nan(""), 1}};
  save("in.safetensors", in);
  const Outcome tensors =
      done("attend --attention softmax --in in.safetensors --out out.safetensors");
  ASSERT_EQ(lines_of(tensors.err).size(), 1u) << tensors.err;
  for (const char* fragment : {"softmax", "\"beta\"", "\"surplus\"", "ignored"})
    EXPECT_NE(tensors.err.find(fragment), std::string::npos) << tensors.err;
  EXPECT_EQ(load("out.safetensors").size(), 4u);
}

}  // namespace
}  // namespace linea::attend_tests
