// Flags that follow from declared settings (base/settings.h). A key that several mechanisms
// declare is one flag; its choices and default belong to each of them.
//
// Values from the user are texts by key in `given`, which lives as long as the command.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "train/config.h"

namespace CLI {
class App;
}

namespace linea {

// The kind with this key, such as "attention".
MechanismKind find_kind(const std::string& key);

// Flags of the general settings that `wanted` accepts.
void add_general_flags(CLI::App& command, Settings& given,
                       const std::function<bool(const GeneralSetting&)>& wanted);
// Flags of what all mechanisms of these kinds declare. Where the user asks for help and chooses a
// mechanism, the help leaves out the flags of the others.
void add_mechanism_flags(CLI::App& command, Settings& given, const std::vector<std::string>& kinds);

// The attentions of these names, each with those given settings that it declares. Errors:
// ErrorKind::usage, a name that does not exist, a text that its setting cannot hold, a setting that
// none of them declares.
std::vector<AttentionOptions> chosen_attentions(const std::vector<std::string>& names,
                                                const Settings& given);

}  // namespace linea
