// Under the sanitizers, where a program is 5 to 11 times slower, a share of what a test goes
// through must do; the release build's tests go through all of it.
#pragma once

namespace linea {

#ifdef LINEA_NAN_FILL
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

}  // namespace linea
