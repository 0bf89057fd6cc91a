#include "nn/over_ranks.h"

namespace linea {
namespace {

thread_local const SumOverRanks* current = nullptr;
thread_local const SharedWork* current_work = nullptr;

}  // namespace

AddOverRanks::AddOverRanks(const SumOverRanks& sum) : Scoped(current, &sum) {}
void add_over_ranks(std::vector<double>& x) {
  if (current != nullptr) (*current)(x);
}

ShareWork::ShareWork(const SharedWork* work) : Scoped(current_work, work) {}
const SharedWork* shared_work() { return current_work; }

}  // namespace linea
