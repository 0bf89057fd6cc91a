// The keys and values that a recurrent form keeps, in slots.
#pragma once

#include <functional>
#include <vector>

#include "autograd/attention_inputs.h"

namespace linea {

// The keys [B,H,slots,D] and values [B,H,slots,M] of the positions that later ones may see, and
// those positions.
class KeySlots final : public AttentionState {
 public:
  KeySlots(const Shape& of_keys, const Shape& of_values, DType dtype)
      : keys(of_keys, dtype), values(of_values, dtype) {}
  size_t bytes() const override { return keys.bytes() + values.bytes(); }
  Tensor keys, values;
  std::vector<int32_t> positions{};  // of each slot in use
  int64_t next = 0;                  // position
};

// Writes the key and the value of one position (N = 1) of all sequences into this slot; where there
// are fewer, slots are added: `growth` or, where that is 0, as many as there are.
void write_slot(KeySlots& state, int64_t slot, const AttentionInputs& in, int64_t growth = 0);
// Slots [first, first + count) of keys or values, or so many positions of any rows: [B,H,count,width].
Tensor read_slots(const Tensor& slots, int64_t first, int64_t count);

struct SlotRules {
  std::function<bool(int64_t position, int64_t now)> has_passed;  // empty: none has
  int64_t growth = 0;                                             // as in write_slot
};
// Writes the next position into a slot, which it returns: one whose position has passed, or one
// more.
int64_t add_position(KeySlots& state, const AttentionInputs& in, const SlotRules& rules);

}  // namespace linea
