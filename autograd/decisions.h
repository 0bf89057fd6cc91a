// Decisions: which keys, buckets or clusters an attention chooses by its inputs. They are constants for the
// gradient. A decision is made through decide(), so that a second pass whose inputs differ by rounding can
// repeat those of the first: a flipped choice would be a wrong gradient. They are made from q and k
// rounded to float32 by dot products in double, in the order of their index: every form, instruction
// set and number of threads then decides alike. Of equals, the lowest index is chosen.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "base/scoped.h"
#include "tensor/tensor.h"

namespace linea {

// In the order in which they were made.
using Decisions = std::vector<Tensor>;

// make(), or what is replayed in its place: i32 from -1 to limit - 1. Errors: ErrorKind::input, a replayed
// decision of another shape or with other numbers.
Tensor decide(const Shape& shape, int64_t limit, const std::function<Tensor()>& make);

// While one lives, decisions of this thread are appended to `into`, or taken from `from` in order. Error of
// decide(): more decisions than `from` has.
class RecordDecisions : Scoped<Decisions*> {
 public:
  explicit RecordDecisions(Decisions& into);
};
class ReplayDecisions {
 public:
  explicit ReplayDecisions(const Decisions& from);

 private:
  friend Tensor decide(const Shape&, int64_t, const std::function<Tensor()>&);
  const Decisions& from_;
  size_t next_ = 0;
  Scoped<ReplayDecisions*> current_;
};

}  // namespace linea
