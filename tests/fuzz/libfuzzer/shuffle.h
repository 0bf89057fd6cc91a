// g++'s __builtin_shuffle, which clang lacks: the lanes of a, then of b, in the order of `lanes`. Included by force
// where the kernels are compiled for fuzzing, which takes their results and not their speed.
#pragma once

template <typename Vector, typename Lanes>
inline Vector __builtin_shuffle(Vector a, Vector b, Lanes lanes) {
  constexpr int kLanes = sizeof(Lanes) / sizeof(lanes[0]);
  Vector result{};
  for (int i = 0; i < kLanes; ++i) result[i] = lanes[i] < kLanes ? a[lanes[i]] : b[lanes[i] - kLanes];
  return result;
}
