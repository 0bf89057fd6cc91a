// Several processes of one program on a machine.
#pragma once

namespace linea {

// From here on machine_memory() (tensor/memory_report.h) gives this process one of `processes`
// equal parts of what the machine and its control group have.
void share_machine_memory(int processes);

}  // namespace linea
