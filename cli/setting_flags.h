// Flags that follow from the settings that mechanisms declare (tensor/settings.h). A key that
// several mechanisms declare is one flag; what it may hold and its default belong to each of them.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "nn/attention.h"
#include "tensor/settings.h"

namespace CLI {
class App;
}

namespace linea {

// The texts of the flags that the user gave, by key.
using GivenTexts = std::map<std::string, std::string>;

// One mechanism and what it declares.
struct Mechanism {
  std::string name;
  Declarations settings;
};
std::vector<Mechanism> attention_mechanisms();

// `kind` is that of all mechanisms, as its flag has it: "attention". `given` lives as long as the
// command.
void add_setting_flags(CLI::App& command, const std::string& kind,
                       const std::vector<Mechanism>& mechanisms, GivenTexts& given);

// The settings of `name` among those given. Errors: a text that its setting cannot hold.
Settings settings_for(const std::vector<Mechanism>& mechanisms, const std::string& name,
                      const GivenTexts& given);
// Error: ErrorKind::usage where a flag belongs to none of the mechanisms in `names`, with those it
// belongs to.
void refuse_foreign_settings(const std::string& kind, const std::vector<Mechanism>& mechanisms,
                             const std::vector<std::string>& names, const GivenTexts& given);

}  // namespace linea
