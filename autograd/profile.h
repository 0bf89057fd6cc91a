// Where the time of a step goes, the device's work included: it is waited for. While a Profile
// lives, every op that ends on this thread adds the time since the one before it ended: in the
// forward pass when it makes its Var, in backward() when its gradients are handed on.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <string>

namespace linea {

class Profile {
 public:
  struct Times {
    double forward = 0, backward = 0;  // seconds
  };

  Profile();
  ~Profile();
  Profile(const Profile&) = delete;
  Profile& operator=(const Profile&) = delete;

  // The one that lives on this thread; null: none.
  static Profile* current();
  void op_ended(const char* op, double Times::*pass);
  // The seconds since the last op ended, which then belong to no op.
  double restart();
  const std::map<std::string, Times, std::less<>>& ops() const { return ops_; }

 private:
  std::map<std::string, Times, std::less<>> ops_;
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
  Profile* before_;
};

}  // namespace linea
