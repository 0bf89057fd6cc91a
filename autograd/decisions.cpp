#include "autograd/decisions.h"

#include "base/error.h"

namespace linea {
namespace {

thread_local Decisions* recorded = nullptr;
thread_local ReplayDecisions* replayed = nullptr;

}  // namespace

RecordDecisions::RecordDecisions(Decisions& into) : Scoped(recorded, &into) {}
ReplayDecisions::ReplayDecisions(const Decisions& from) : from_(from), current_(replayed, this) {}

Tensor decide(const Shape& shape, int64_t limit, const std::function<Tensor()>& make) {
  Tensor decision;
  if (replayed == nullptr) {
    decision = make();
  } else {
    ReplayDecisions& replay = *replayed;
    if (replay.next_ == replay.from_.size())
      fail(ErrorKind::input, "there are {} decisions, and more are asked for", replay.from_.size());
    decision = replay.from_[replay.next_++];
    if (decision.shape() != shape)
      fail(ErrorKind::input, "decisions are {}; here they must be {}", decision.shape().str(),
           shape.str());
    for (const int32_t index : decision.to_vector<int32_t>())
      if (index < -1 || index >= limit)
        fail(ErrorKind::input, "decisions hold {}; they must be from -1 to {}", index, limit - 1);
  }
  if (recorded != nullptr) recorded->push_back(decision);
  return decision;
}

}  // namespace linea
