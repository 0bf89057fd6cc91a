// How long OpenMP's threads wait for each other.
#pragma once

namespace linea {

// To be called first in main, as the program `linea` does. GNU OpenMP lets a thread that waits spin
// for some hundred thousand rounds: on cores that other programs use too, a step or a sample then
// takes several times as long (docs/performance.md). It reads GOMP_SPINCOUNT before main, so this
// starts the program again, once, with 3000 rounds, which cost nothing on idle cores. Returns at
// once where GOMP_SPINCOUNT or OMP_WAIT_POLICY is set, and where the program cannot start again.
void restart_with_short_spins(char** argv);

}  // namespace linea
