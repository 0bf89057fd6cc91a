#include "autograd/profile.h"

#include <string_view>

#include "tensor/backend.h"

namespace linea {
namespace {

thread_local Profile* living = nullptr;

}  // namespace

Profile::Profile() : before_(living) { living = this; }
Profile::~Profile() { living = before_; }
Profile* Profile::current() { return living; }

void Profile::op_ended(const char* op, double Times::*pass) {
  auto place = ops_.find(std::string_view(op));
  if (place == ops_.end()) place = ops_.emplace(op, Times{}).first;
  place->second.*pass += restart();
}

double Profile::restart() {
  device_memory(context().device).wait(context());
  const auto now = std::chrono::steady_clock::now();
  const double seconds = std::chrono::duration<double>(now - last_).count();
  last_ = now;
  return seconds;
}

}  // namespace linea
