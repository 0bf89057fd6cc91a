// Composed and decomposed Unicode: NFC has U+00E9 where NFD has U+0065 and U+0301. They look alike
// and are different tokens.
#pragma once

#include <utility>

namespace linea {

// The character that NFC makes of these two; 0: none.
char32_t compose(char32_t first, char32_t second);

// One step of NFD: the two characters that compose to `code`; {0, 0}: none.
std::pair<char32_t, char32_t> decompose(char32_t code);

}  // namespace linea
