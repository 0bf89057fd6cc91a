#include "autograd/profile.h"

#include <string_view>

#include "tensor/backend.h"

namespace linea {
namespace {

thread_local Profile* current_profile = nullptr;

}  // namespace

Profile::Profile() : current_(current_profile, this) {}
Profile* Profile::current() { return current_profile; }

void Profile::op_ended(const char* op, double Times::*pass) {
  auto entry = ops_.find(std::string_view(op));
  if (entry == ops_.end()) entry = ops_.emplace(op, Times{}).first;
  entry->second.*pass += restart();
}

double Profile::restart() {
  device_memory(context().device).wait(context());
  const auto now = std::chrono::steady_clock::now();
  const double seconds = std::chrono::duration<double>(now - last_).count();
  last_ = now;
  return seconds;
}

}  // namespace linea
