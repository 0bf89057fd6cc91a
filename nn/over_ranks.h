// Processes that share the rows of a training step: sums over them, for what attentions learn
// without gradients, and work that one does for all.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "base/scoped.h"

namespace linea {

// x becomes the sum of all processes' x, in double.
using SumOverRanks = std::function<void(std::vector<double>& x)>;

// While one lives, add_over_ranks() of this thread calls it; it outlives that.
struct AddOverRanks : Scoped<const SumOverRanks*> {
  explicit AddOverRanks(const SumOverRanks& sum);
};
// Without processes that share rows x stays as it is. All call it with as many numbers, in the same
// order.
void add_over_ranks(std::vector<double>& x);

// Memory that process `owner` computes and all need.
struct OwnedBytes {
  void* address;
  size_t bytes;
  int owner;
};
// Work that each process could do, but one is enough for: part i belongs to process i mod `size`.
struct SharedWork {
  int rank = 0, size = 1;
  std::function<void(const std::vector<OwnedBytes>&)> copy_from_owners;
};
// While one lives, shared_work() of this thread; it outlives that. Else null: do all of it.
struct ShareWork : Scoped<const SharedWork*> {
  explicit ShareWork(const SharedWork* work);
};
const SharedWork* shared_work();

}  // namespace linea
