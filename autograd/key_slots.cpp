#include "autograd/key_slots.h"

#include <algorithm>

#include "autograd/qkv_layout.h"
#include "tensor/launch.h"

namespace linea {
namespace {

void copy_rows(const HeadTensor& from, const HeadTensor& to, int64_t rows) {
  LINEA_LAUNCH(copy_rows, from.data.dtype(), from, to, from.batches * from.heads, rows, from.width);
}

}  // namespace

void write_slot(KeySlots& state, int64_t slot, const AttentionInputs& in, int64_t growth) {
  const Heads position = Heads::of(in);
  if (slot >= static_cast<int64_t>(state.positions.size()))
    state.positions.resize(static_cast<size_t>(slot) + 1, -1);
  for (const auto& [x, slots] :
       {std::pair(&position.k, &state.keys), {&position.v, &state.values}}) {
    const int64_t there = slots->size(2);
    if (slot >= there) {
      const int64_t more = growth > 0 ? growth : std::max<int64_t>(there, 64);
      const Tensor larger(slots->shape().with(2, there + more), slots->dtype());
      if (there > 0) copy_rows(*slots, larger, there);
      *slots = larger;
    }
    copy_rows(*x, HeadTensor(*slots).from(slot), 1);
  }
}

int64_t add_position(KeySlots& state, const AttentionInputs& in, const SlotRules& rules) {
  const int64_t now = state.next++;
  const auto passed = std::find_if(
      state.positions.begin(), state.positions.end(),
      [&](int32_t position) { return rules.has_passed && rules.has_passed(position, now); });
  const int64_t slot = passed - state.positions.begin();
  write_slot(state, slot, in, rules.growth);
  state.positions[static_cast<size_t>(slot)] = static_cast<int32_t>(now);
  return slot;
}

Tensor read_slots(const Tensor& slots, int64_t first, int64_t count) {
  const Tensor rows(slots.shape().with(2, count), slots.dtype());
  copy_rows(HeadTensor(slots).from(first), rows, count);
  return rows;
}

}  // namespace linea
