// --ema: the average of a model's weights against its recurrence in double.
#include "nn/weight_average.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/expect_error.h"
#include "tests/nn/attention_options.h"

namespace linea {
namespace {

std::unique_ptr<Model> tiny(const std::string& attention) {
  ModelConfig config;
  config.attentions[0].name = attention;
  config.attentions[0].settings = declared_only(attention, {{"codes", 4}});
  config.layers = 1;
  config.heads = 1;
  config.dim = config.ffn = 4;
  config.length = 8;
  return make_model(config);
}

// Values of update t, by parameter.
std::vector<double> values_at(const Parameter& parameter, int64_t t) {
  std::vector<double> values;
  for (int64_t i = 0; i < parameter.var.value().numel(); ++i)
    values.push_back(std::sin(0.7 * static_cast<double>(i) + 1.3 * static_cast<double>(t)) + 0.1);
  return values;
}

void set_values(const Model& model, int64_t t) {
  for (const Parameter& parameter : model.parameters())
    write_values(values_at(parameter, t), parameter.var.value());
}

// e_0 = p_0; e_{n+1} = d_n e_n + (1 - d_n) p_{n+1}, d_n = min(d, (1 + n) / (10 + n)).
TEST(WeightAverage, IsThatOfTheFormula) {
  for (const double decay : {0.5, 0.9}) {
    const std::unique_ptr<Model> model = tiny("linear");
    set_values(*model, 0);
    WeightAverage average(*model, decay);
    constexpr int64_t kUpdates = 100;
    for (int64_t t = 1; t <= kUpdates; ++t) {
      set_values(*model, t);
      average.update();
    }
    EXPECT_EQ(average.updates(), kUpdates);
    const Parameters& found = average.model().parameters();
    ASSERT_EQ(found.size(), model->parameters().size());
    for (size_t p = 0; p < found.size(); ++p) {
      std::vector<double> expected = values_at(found[p], 0);
      for (int64_t t = 1; t <= kUpdates; ++t) {
        const double n = static_cast<double>(t - 1), d = std::min(decay, (1 + n) / (10 + n));
        const std::vector<double> values = values_at(found[p], t);
        for (size_t i = 0; i < values.size(); ++i)
          expected[i] = d * expected[i] + (1 - d) * values[i];
      }
      const std::vector<double> got = found[p].var.value().to_doubles();
      for (size_t i = 0; i < got.size(); ++i)
        EXPECT_NEAR(got[i], expected[i], 2e-6) << found[p].name;
    }
    for (size_t p = 0; p < found.size(); ++p)  // the model's own weights stay
      EXPECT_NEAR(model->parameters()[p].var.value().to_doubles()[0],
                  values_at(found[p], kUpdates)[0], 1e-6);
  }
}

// The factors sum to 1 though they are rounded: 0.99999 is off by 2e-8 in float, which would be
// 0.2% of the average.
TEST(WeightAverage, OfConstantWeightsStaysThere) {
  const std::unique_ptr<Model> model = tiny("linear");
  WeightAverage average(*model, 0.99999);
  average.restore(10000000);
  for (int i = 0; i < 20000; ++i) average.update();
  for (size_t p = 0; p < model->parameters().size(); ++p) {
    const std::vector<double> found = average.model().parameters()[p].var.value().to_doubles(),
                              expected = model->parameters()[p].var.value().to_doubles();
    for (size_t i = 0; i < found.size(); ++i)
      EXPECT_NEAR(found[i], expected[i], 3e-4 * std::abs(expected[i]));
  }
}

TEST(WeightAverage, TakesBuffersAsTheyAre) {
  for (const std::string attention : {"performer", "vq"}) {
    const std::unique_ptr<Model> model = tiny(attention);
    WeightAverage average(*model, 0.9);
    ASSERT_FALSE(model->buffers().empty()) << attention;
    for (const Buffer& buffer : model->buffers()) {
      std::vector<double> values = buffer.tensor.to_doubles();
      for (double& value : values) value += 0.5;
      write_values(values, buffer.tensor);
    }
    model->buffers_changed();
    average.update();
    const std::vector<Buffer> buffers = average.model().buffers();
    for (size_t i = 0; i < buffers.size(); ++i)
      EXPECT_EQ(buffers[i].tensor.to_doubles(), model->buffers()[i].tensor.to_doubles())
          << attention << " " << buffers[i].name;
  }
}

TEST(WeightAverage, RefusesOtherDecays) {
  const std::unique_ptr<Model> model = tiny("linear");
  for (const double decay : {-0.1, 1.0, 2.0})
    expect_error(ErrorKind::usage, {"ema", "[0, 1)"}, [&] { WeightAverage(*model, decay); });
}

}  // namespace
}  // namespace linea
