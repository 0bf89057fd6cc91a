// Ctrl-C and SIGTERM ask a run to stop; it finishes its step and saves. A second Ctrl-C leaves at once.
#pragma once

namespace linea {

inline constexpr int kExitStopped = 75;

void watch_signals();
bool stop_asked();

}  // namespace linea
