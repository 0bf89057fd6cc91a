#include "tensor/step_rows.h"

namespace linea {
namespace {

thread_local StepRows current;

}  // namespace

const StepRows& step_rows() { return current; }
BatchOfStep::BatchOfStep(const StepRows& rows) : Scoped(current, rows) {}

}  // namespace linea
