// Time per op, including the device's work, for which it waits. While a Profile lives, each op that
// ends on this thread adds the time since the previous one ended: in the forward pass at
// Var::from_op, in backward() after its gradients are added.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <string>

#include "base/scoped.h"

namespace linea {

class Profile {
 public:
  struct Times {
    double forward = 0, backward = 0;  // seconds
  };

  Profile();

  // The current one of this thread; null: none.
  static Profile* current();
  void op_ended(const char* op, double Times::*pass);
  // The seconds since the last op ended; they count for no op.
  double restart();
  const std::map<std::string, Times, std::less<>>& ops() const { return ops_; }

 private:
  std::map<std::string, Times, std::less<>> ops_;
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
  Scoped<Profile*> current_;
};

}  // namespace linea
