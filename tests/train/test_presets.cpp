// What the comments of the presets say is what their models have and what docs/results.md measured.
#include "train/presets.h"

#include <gtest/gtest.h>

#include <regex>
#include <sstream>

#include "data/files.h"
#include "data/vocabulary.h"
#include "nn/model.h"
#include "tests/expect_error.h"
#include "tests/sanitized.h"
#include "train/config.h"

namespace linea {
namespace {

// The cells of the preset's row in the table of docs/results.md: name, what it trains, minutes, what
// it reaches, samples. Empty: it has no row.
std::vector<std::string> table_row(const std::string& preset) {
  std::istringstream page(read_file(LINEA_SOURCE "/docs/results.md"));
  std::vector<std::string> cells;
  for (std::string line; std::getline(page, line) && line != "## Which recipe?";) {
    if (!line.starts_with("| `" + preset + "` |")) continue;
    std::istringstream row(line.substr(2));
    for (std::string cell; std::getline(row, cell, '|');) cells.push_back(cell);
  }
  return cells;
}

// A text has the 65 characters of Tiny Shakespeare, or all bytes.
std::string vocabulary_of(const RunConfig& config) {
  if (!find_task(config.task).has_vocabulary) return "";
  const Settings settings = complete_settings(task_options(config, ""));
  const bool bytes = settings.has("tokenizer") && settings.text("tokenizer") == "bytes";
  std::string text;
  for (char c = '!'; c < '!' + 65; ++c) text.push_back(c);
  return (bytes ? Vocabulary::all_bytes() : Vocabulary::from_text(text, "test")).serialize();
}

TEST(Presets, HaveTheParametersThatTheyName) {
  for (const Preset& preset : share_of(kPresets, 3)) {
    const RunConfig config = config_from_toml(preset.text, preset.name);
    const TaskShape shape = task_shape(task_options(config, vocabulary_of(config)));
    const std::unique_ptr<Model> model = make_model(model_config(config, shape));
    EXPECT_EQ(preset_facts(preset.text).parameters, count_elements(model->parameters()))
        << preset.name;
  }
}

// Results are numbers with a decimal point.
TEST(Presets, HaveTheResultsOfTheDocumentation) {
  const std::regex number("[0-9]+\\.[0-9]+");
  for (const Preset& preset : kPresets) {
    const PresetFacts facts = preset_facts(preset.text);
    EXPECT_FALSE(facts.about.empty()) << preset.name;
    EXPECT_GT(facts.minutes, 0) << preset.name;
    const std::vector<std::string> row = table_row(preset.name);
    ASSERT_EQ(row.size(), 5) << preset.name << " needs one row in the table of docs/results.md";
    std::string minutes = row[2];
    std::erase(minutes, ',');
    EXPECT_EQ(facts.minutes, std::stod(minutes)) << preset.name;
    const std::string& results = row[3];
    const std::sregex_iterator first(facts.reaches.begin(), facts.reaches.end(), number);
    for (auto found = first; found != std::sregex_iterator(); ++found)
      EXPECT_NE(results.find(found->str()), std::string::npos) << preset.name << ": " << results;
  }
}

TEST(Presets, CommentsAreReadAsFields) {
  const PresetFacts facts = preset_facts(
      "# One\n# two.\n# Parameters: 1,234,567\n# Minutes: 0.5\n# Reaches: a\n# b\ntask = \"copy\"\n"
      "# Minutes: 7\n");
  EXPECT_EQ(facts.about, "One two.");
  EXPECT_EQ(facts.parameters, 1234567);
  EXPECT_EQ(facts.minutes, 0.5);
  EXPECT_EQ(facts.reaches, "a b");
  expect_error(ErrorKind::usage, {"Reaches"},
               [] { preset_facts("# A\n# Parameters: 1\n# Minutes: 1\nx = 1\n"); });
  expect_error(ErrorKind::usage, {"minutes", "soon"},
               [] { preset_facts("# Parameters: 1\n# Minutes: soon\n# Reaches: a\n"); });
}

}  // namespace
}  // namespace linea
