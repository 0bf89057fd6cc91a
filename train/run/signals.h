// Reasons to stop a run early: a signal or a time limit.
#pragma once

#include <string>

namespace linea {

// Exit code of a run that was stopped and saved: EX_TEMPFAIL, start it again.
inline constexpr int kExitStopped = 75;

// From here on SIGINT, SIGHUP, SIGTERM and SIGUSR1 request a stop instead of ending the program.
// The first SIGINT prints how to leave without saving: by another one, a second later or more.
// SIGINT and SIGHUP stay ignored where the parent ignored them.
void watch_signals();
// From here on a closed stdout or stderr pipe does not end the program.
void ignore_closed_pipes();
// The name of the signal that requested a stop, one of kStopSignals; "" where none did.
std::string stop_signal();
inline constexpr const char* kStopSignals[] = {"SIGINT", "SIGHUP", "SIGTERM", "SIGUSR1"};

// Thrown where work ends early by a reason to stop, of this rank or of another.
struct Interrupted {};

// "3h50m", "2d", "90s" or a number of seconds -> seconds, above 0; 0 for "". Error:
// ErrorKind::usage, with the name of the setting.
double parse_duration(const std::string& text, const char* setting = "`max_time`");

}  // namespace linea
