// Lists of attentions, which the layers take in turn: what they parse to, and models of them.
#include <gtest/gtest.h>

#include "autograd/ops.h"
#include "nn/optimizer.h"
#include "nn/transformer.h"
#include "tests/expect_error.h"
#include "tests/nn/attention_options.h"
#include "tests/nn/decode_steps.h"
#include "tests/nn/small_transformer.h"
#include "tests/sanitized.h"

namespace linea {
namespace {

std::string normal(const std::string& list) { return attention_list(parse_attentions(list)); }

TEST(AttentionList, HasANormalForm) {
  EXPECT_EQ(normal("softmax"), "softmax");
  EXPECT_EQ(normal("linear:rule=gated:feature=relu/softmax"),
            "linear:feature=relu:rule=gated/softmax");
  EXPECT_EQ(normal("linear:feature={dpfp}:nu=+2/vq:codes=8:commitment=0.50"),
            "linear:feature=dpfp:nu=2/vq:codes=8:commitment=0.5");
}

TEST(AttentionList, NamesThePlaceOfAnError) {
  const auto refused = [](const std::string& list, std::initializer_list<std::string> fragments) {
    expect_error(ErrorKind::usage, fragments, [&] { parse_attentions(list); });
  };
  refused("linaer", {"there is no attention 'linaer'", "softmax"});
  refused("linear/linaer", {"`attention`, item 2 of 2", "'linaer'"});
  refused("linear//softmax", {"item 2 of 3", "no attention"});
  refused("linear/", {"item 2 of 2", "no attention"});
  refused("", {"no attention"});
  refused("linear/softmax:codes=3", {"item 2 of 2", "attention softmax has no setting `codes`"});
  refused("linear:rule/softmax", {"item 1 of 2", "'rule'", "rule=VALUE"});
  refused("linear:rule=sun", {"rule", "'sun'", "gated-delta"});
  refused("vq:codes=0/softmax", {"item 1 of 2", "`codes` is 0"});
  refused("vq:codes=2:codes=3", {"`codes` twice"});
  refused("linear:rule={gated", {"'{' without a '}'"});
  refused("linear:rule=gated}", {"'}' without a '{'"});
  refused("linear,softmax", {"'linear,softmax'"});
}

TEST(AttentionList, SharesSettingsAmongThoseThatDeclareThem) {
  const auto shared = [](const std::string& list, const Settings& settings) {
    return attention_list(with_shared(parse_attentions(list), settings));
  };
  EXPECT_EQ(shared("vq/soft-vq:codes=9/softmax", {{"codes", 8}}),
            "vq:codes=8/soft-vq:codes=9/softmax");
  // A setting that has a meaning for one of them alone.
  EXPECT_EQ(shared("linear:rule=sum/linear:rule=gated", {{"memory", "long"}}),
            "linear:rule=sum/linear:memory=long:rule=gated");
  // A condition that is shared, of a setting that is not.
  EXPECT_EQ(shared("linear:nu=2/linear", {{"feature", "dpfp"}}),
            "linear:feature=dpfp:nu=2/linear:feature=dpfp");
  expect_error(ErrorKind::usage, {"`memory` long", "linear/softmax"}, [&] {
    shared("linear/softmax", {{"memory", "long"}});
  });
}

// What config.toml holds says all, whatever the defaults of a later version are.
TEST(AttentionList, DefaultsThatDifferBecomeTheItemsOwn) {
  std::vector<AttentionOptions> items = parse_attentions("linear/performer");
  const Settings values = complete_shared(items, {{"rule", "gated"}, {"features", 16}});
  EXPECT_EQ(attention_list(items), "linear:feature=elu/performer:feature=positive");
  EXPECT_EQ(values.text("rule"), "gated");
  EXPECT_EQ(values.integer("features"), 16);
  EXPECT_FALSE(values.has("feature"));
}

// What an item has of its own cannot be shared with it.
TEST(AttentionList, DeclaresWhatIsNotOwn) {
  const Declarations declared = declared_by(parse_attentions("linear:feature=relu/performer"));
  EXPECT_EQ(find_setting(declared, "feature")->initial, SettingValue("positive"));
  EXPECT_EQ(find_setting(declared_by(parse_attentions("linear:rule=sum")), "rule"), nullptr);
}

TEST(AttentionList, LabelsCountEqualItems) {
  EXPECT_EQ(label_of(parse_attentions("linear/linear/softmax")),
            "2 x linear --feature elu / softmax");
}

ModelConfig model_of(const std::string& list, int64_t layers = 2) {
  ModelConfig config = small_model();
  config.layers = layers;
  config.attentions = with_shared(parse_attentions(list), {});
  for (AttentionOptions& item : config.attentions)
    if (find_setting(find_attention(item.name).settings, "codes") != nullptr)
      item.settings["codes"] = 6;
  return config;
}

std::vector<double> gradients_of(const Model& model, const Tensor& ids) {
  backward(cross_entropy(model.forward(ids, false), ids));
  std::vector<double> all;
  for (const Parameter& parameter : model.parameters())
    for (const double x : parameter.var.grad().to_doubles()) all.push_back(x);
  return all;
}

TEST(Hybrid, OfEqualItemsHasTheBitsOfOne) {
  const Tensor ids = some_ids(3, 20);
  for (const std::string name : {"softmax", "linear:rule=gated"}) {
    const Transformer one(model_of(name)), two(model_of(name + "/" + name));
    EXPECT_EQ(one.forward(ids, false).value().to_doubles(),
              two.forward(ids, false).value().to_doubles());
    EXPECT_EQ(gradients_of(one, ids), gradients_of(two, ids));
  }
}

// Sampling gives what the parallel form gives, with each layer's own state.
TEST(Hybrid, StepsMatchTheParallelForm) {
  const Tensor ids = some_ids(2, 20);
  const NoGrad no_grad;
  std::vector<std::string> names = {"linear:rule=gated-delta"};
  for (const AttentionEntry& entry : causal_attentions())
    if (!entry.variants.empty()) names.push_back(entry.name);
  const auto captures = [](const std::string& item) {
    return make_smallest(parse_attentions(item).front())->traits().step_capturable;
  };
  for (const std::string& first : share_of(names, 3))
    for (const std::string& second : share_of(names, 4)) {
      SCOPED_TRACE(first + "/" + second);
      const Transformer model(model_of(first + "/" + second, 3));
      expect_steps_are_rows(model, ids);
      EXPECT_EQ(model.is_step_capturable(), captures(first) && captures(second));
    }
}

// Those of published language models learn, and sample what they have learned; their states are those of
// their layers.
TEST(Hybrid, PublishedOnesTrainAndSample) {
  const Tensor ids = some_ids(2, 20), targets = some_ids(2, 20, 1);
  for (const std::string list :
       {"gdn/gdn/gdn/softmax", "kda/kda/kda/softmax", "ssd/softmax:window=128"}) {
    SCOPED_TRACE(list);
    Transformer model(model_of(list, 4));
    Optimizer optimizer({}, model.parameters());
    double first = 0, last = 0;
    for (int step = 0; step < 60; ++step) {
      const Var loss = cross_entropy(model.forward(ids, true), targets);
      last = loss.value().item();
      if (step == 0) first = last;
      backward(loss);
      ASSERT_TRUE(optimizer.step(1e-2));
    }
    EXPECT_LT(last, 0.5 * first);
    const NoGrad no_grad;
    expect_steps_are_rows(model, ids);
    size_t layers = 0;
    for (int64_t layer = 0; layer < 4; ++layer)
      layers += make_attention(model.config().attention_of(layer))->start(2, DType::f32)->bytes();
    EXPECT_EQ(model.start(2).bytes(), layers);
  }
}

TEST(Hybrid, StatisticsAreThoseOfTheLayersThatHaveThem) {
  Transformer model(model_of("vq/softmax"));
  Var auxiliary;
  model.before_step(0, 10);
  model.forward(some_ids(2, 20), true, &auxiliary);
  model.after_step();
  ASSERT_EQ(model.statistics().size(), 3u);
  EXPECT_EQ(model.statistics(), model.attentions()[0]->statistics());
}

TEST(Hybrid, HasNoMoreItemsThanLayers) {
  expect_error(ErrorKind::usage, {"`attention` names 3", "`layers` is 2"},
               [] { Transformer(model_of("softmax/linear/vq")); });
}

}  // namespace
}  // namespace linea
