// Attentions layer by layer, as `--attention` names them:
//
//   linear:rule=gated-delta/linear:rule=gated-delta/linear:rule=gated-delta/softmax
//
// Items divided by '/' are taken by the layers in turn: layer i, from 0, has item i modulo their
// number (ModelConfig::attention_of). ":key=value" after a name gives an item a setting of its own; a
// value that holds '/' or ':' is written in braces. Settings given elsewhere (`--rule gated`) are
// shared: they hold for every item that declares them and has none of its own.
#pragma once

#include <string>
#include <vector>

#include "nn/attention.h"

namespace linea {

// The items with their own settings. Errors: ErrorKind::usage, with the item's place where there
// are several: no name, an unknown one, a key without a value, those of parse_value.
std::vector<AttentionOptions> parse_attentions(const std::string& list);
// Its normal form: own settings by key.
std::string attention_list(const std::vector<AttentionOptions>& items);

// What may be shared: the settings of the items that are not their own, each key once.
Declarations declared_by(const std::vector<AttentionOptions>& items);
// Gives the items the shared settings that apply to them -> those that apply to none.
Settings take_shared(std::vector<AttentionOptions>& items, const Settings& shared);
// The items with the shared settings. Error: ErrorKind::usage, a setting that applies to no item.
std::vector<AttentionOptions> with_shared(std::vector<AttentionOptions> items,
                                          const Settings& shared);
// All values that apply and are no item's own. Defaults on which the items do not agree become
// their own.
Settings complete_shared(std::vector<AttentionOptions>& items, const Settings& shared);

// "linear --feature elu", the items divided by " / ", equal ones in a row counted.
std::string label_of(const std::vector<AttentionOptions>& items);

}  // namespace linea
