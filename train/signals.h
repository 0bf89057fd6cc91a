// Why a run should end before its last step: a signal, or its time.
#pragma once

#include <string>

namespace linea {

inline constexpr int kExitStopped =
    75;  // of a run that was stopped and saved (EX_TEMPFAIL: start it again)

// From here on SIGINT, SIGTERM and SIGUSR1 ask for a stop instead of ending the program; a second
// SIGINT ends it at once. A reader of stdout or stderr that goes away does not end it.
void watch_signals();
// The name of the signal that asked for a stop; "" where none did.
std::string stop_signal();

// "3h50m", "2d", "90s" or plain seconds -> seconds, above 0; 0 for "". Error: ErrorKind::usage.
double parse_duration(const std::string& text);

}  // namespace linea
