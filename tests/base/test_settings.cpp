// Declared settings: defaults, checks, what is refused, labels.
#include "base/settings.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/expect_error.h"

namespace linea {
namespace {

using namespace declare;

const Declarations kDeclared = {
    labeled(choice("feature", "elu", {"elu", "dpfp"}, "a choice")),
    labeled_if_changed(only_with("feature", {"dpfp"}, integer("nu", 1, {1, 8}, "a whole number"))),
    positive("sigma", 1, "a number"),
    flag("flip", "a flag"),
    text("data", "", "a text"),
};

TEST(Settings, CompletesWithDefaults) {
  const Settings all = complete(kDeclared, {{"flip", true}, {"sigma", 2}}, "thing");
  EXPECT_EQ(all.text("feature"), "elu");
  EXPECT_FALSE(all.has("nu"));        // only with dpfp
  EXPECT_EQ(all.real("sigma"), 2.0);  // a whole number is a number
  EXPECT_TRUE(all.flag("flip"));
  EXPECT_EQ(complete(kDeclared, {{"feature", "dpfp"}}, "thing").integer("nu"), 1);
}

TEST(Settings, RefusesWhatIsNotDeclaredOrOutOfRange) {
  const auto refused = [](const Settings& given, std::initializer_list<std::string> fragments) {
    expect_error(ErrorKind::usage, fragments, [&] { complete(kDeclared, given, "thing"); });
  };
  refused({{"size", 1}}, {"thing has no setting `size`"});
  refused({{"feature", "cosine"}}, {"`feature` is 'cosine'", "elu, dpfp"});
  refused({{"nu", 2}}, {"`nu` has a meaning only with `feature` dpfp"});
  refused({{"feature", "dpfp"}, {"nu", 0}}, {"`nu` is 0", "1..8"});
  refused({{"feature", "dpfp"}, {"nu", 1.5}}, {"`nu` is 1.5", "whole number"});
  refused({{"sigma", 0.0}}, {"`sigma` is 0", "above 0"});
  refused({{"sigma", HUGE_VAL}}, {"`sigma` is inf", "finite"});
  refused({{"sigma", NAN}}, {"`sigma` is nan"});
  refused({{"sigma", "wide"}}, {"`sigma` is 'wide'", "a number"});
  refused({{"flip", 1}}, {"`flip` is 1", "true or false"});
  refused({{"data", 1}}, {"`data` is 1", "a text"});
}

TEST(Settings, ReadsTexts) {
  const auto read = [](const char* key, const std::string& text) {
    return parse_value(*find_setting(kDeclared, key), text);
  };
  EXPECT_EQ(read("nu", "3"), SettingValue(3));
  EXPECT_EQ(read("sigma", "1e-3"), SettingValue(1e-3));
  EXPECT_EQ(read("flip", "false"), SettingValue(false));
  EXPECT_EQ(read("data", "3"), SettingValue("3"));
  for (const char* text : {"", "x", "3x", "1.5", " 3"})
    expect_error(ErrorKind::usage, {"`nu`", "whole number"}, [&] { read("nu", text); });
  expect_error(ErrorKind::usage, {"`nu`", "below"}, [&] { read("nu", "99999999999999999999"); });
  expect_error(ErrorKind::usage, {"`flip` is 'yes'"}, [&] { read("flip", "yes"); });
  // Numbers are shown as they were written.
  expect_error(ErrorKind::usage, {"`nu` is 99999999999999999999;"},
               [&] { read("nu", "99999999999999999999"); });
  expect_error(ErrorKind::usage, {"`nu` is +009; "}, [&] { read("nu", "+009"); });
  expect_error(ErrorKind::usage, {"`sigma` is -1.50; "}, [&] { read("sigma", "-1.50"); });
  for (const char* text : {"1e400", "-1e400", "1e-400"})
    expect_error(ErrorKind::usage, {fmt::format("`sigma` is {}; ", text), "1e-307 to 1e308"},
                 [&] { read("sigma", text); });
}

TEST(Settings, LabelsShowWhatIdentifies) {
  const auto label = [](const Settings& given) {
    return label_of(kDeclared, complete(kDeclared, given, "thing"));
  };
  EXPECT_EQ(label({{"flip", true}}), " --feature elu");
  EXPECT_EQ(label({{"feature", "dpfp"}}), " --feature dpfp");
  EXPECT_EQ(label({{"feature", "dpfp"}, {"nu", 2}}), " --feature dpfp --nu 2");
}

}  // namespace
}  // namespace linea
