// How far a backward pass is: gradients that are complete can be sent before it ends.
#pragma once

#include "autograd/var.h"
#include "base/scoped.h"

namespace linea {

// Hears of the backward passes of this thread while it listens.
class BackwardListener {
 public:
  virtual ~BackwardListener() = default;
  virtual void op_done() = 0;
  // The gradients that come from ops behind layer_boundary(x, number) are complete.
  virtual void passed(int64_t number) = 0;
};
struct ListenToBackward : Scoped<BackwardListener*> {
  explicit ListenToBackward(BackwardListener* listener);  // null: none
};
// x, before the layer of this number; where nothing listens, x itself.
Var layer_boundary(const Var& x, int64_t number);

}  // namespace linea
