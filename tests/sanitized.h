// Under the sanitizers, where a program is 5 to 11 times slower, a share of what a test goes
// through must do; the release build's tests go through all of it.
#pragma once

#include <cstddef>
#include <vector>

namespace linea {

extern const bool kSanitized;

// Under the sanitizers the first of every `each`; else all.
template <typename T>
std::vector<T> share_of(const std::vector<T>& all, size_t each) {
  std::vector<T> result;
  for (size_t i = 0; i < all.size(); i += kSanitized ? each : 1) result.push_back(all[i]);
  return result;
}

}  // namespace linea
