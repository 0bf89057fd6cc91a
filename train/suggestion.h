// Suggestions for a name that does not exist.
#pragma once

#include <string>
#include <vector>

namespace linea {

// The known word nearest to `word`: at most one letter in three is added, left out, replaced or
// swapped with its neighbor. Empty where none is that near.
std::string nearest(const std::string& word, const std::vector<std::string>& known);

// Ends the error about an unknown flag or setting: "; here it is '--lr'" for a name that nanoGPT,
// minGPT, llm.c, Hugging Face or fast-transformers use, "; the nearest is '--steps'", or "" where
// `known` has neither. Words may have leading dashes.
std::string suggestion(const std::string& word, const std::vector<std::string>& known);

}  // namespace linea
