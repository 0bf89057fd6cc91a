// With fewer (batch, head) items than threads, the chunks of one item are divided into spans, in
// the order of the sweep:
//
//   each span sums its own rows, starting from zero
//   the sums are accumulated in order: the sum before a span is its initial state
//   the spans are swept in parallel
//
// This costs a second summation of the rows and one state for each span. The spans depend on the
// number of threads, and so do the bits.
#pragma once

#include "tensor/cpu/chunk.h"

namespace linea::cpu {

// At least four chunks for each span: with fewer the second summation costs more than it saves.
inline int64_t num_spans(const Context& ctx, const ChunkShape& shape) {
  const int64_t per_bh =
      omp_in_parallel() ? 1 : ctx.threads / std::max<int64_t>(shape.batch_heads, 1);
  return std::clamp<int64_t>(per_bh, 1, std::max<int64_t>(chunk_count(shape) / 4, 1));
}

// A state for each bh and span, and the sum of the span's log decays.
template <typename T>
class SpanStates {
 public:
  SpanStates(Context& ctx, const ChunkShape& shape, int64_t slots, bool scaled)
      : F_(shape.features),
        M_(shape.values),
        scaled_(scaled),
        slots_(slots),
        memory_(ctx, slots * (F_ * M_ + 2 * F_ + 1)) {}

  ChunkState<T> view() const {
    T* const state = memory_.data();
    T* const key_sum = state + slots_ * F_ * M_;
    return {state, key_sum, scaled_ ? key_sum + slots_ * F_ : nullptr};
  }
  T& decay(int64_t slot) const { return memory_.data()[slots_ * (F_ * M_ + 2 * F_) + slot]; }

  void clear(int64_t slot) const {
    const ChunkState<T> all = view();
    std::fill_n(all.state + slot * F_ * M_, F_ * M_, T(0));
    std::fill_n(all.key_sum + slot * F_, F_, T(0));
    if (scaled_) std::fill_n(all.scale + slot * F_, F_, kNothing<T>);
  }
  void copy_to(int64_t slot, const ChunkState<T>& states, int64_t bh) const {
    const ChunkState<T> all = view();
    std::copy_n(all.state + slot * F_ * M_, F_ * M_, states.state + bh * F_ * M_);
    std::copy_n(all.key_sum + slot * F_, F_, states.key_sum + bh * F_);
    if (scaled_) std::copy_n(all.scale + slot * F_, F_, states.scale + bh * F_);
  }

 private:
  int64_t F_, M_;
  bool scaled_;
  int64_t slots_;
  Workspace<T> memory_;
};

// Whether a chunk has rows that update the state (keys) and rows that read it (queries).
struct Sides {
  bool update, read;
};

// visit(bh, thread, index, running) for every chunk of every bh, from the first or from the last,
// after all chunks before it have been added to `running`; accumulate(the same) only adds a chunk
// and returns its log decay.
template <typename T, typename Accumulate, typename Visit>
void sweep_chunks(Context& ctx, const ChunkShape& shape, const ChunkState<T>& states,
                  bool from_last, const Sides& sides, const Accumulate& accumulate,
                  const Visit& visit) {
  const int64_t F = shape.features, M = shape.values, chunks = chunk_count(shape),
                spans = num_spans(ctx, shape);
  const auto each_chunk = [&](int64_t span, const auto& body) {
    for (int64_t n = chunks * span / spans; n < chunks * (span + 1) / spans; ++n)
      body(from_last ? chunks - 1 - n : n);
  };
  if (spans == 1 || !sides.update)
    return parallel_items(ctx, shape.batch_heads * spans, [&](int64_t item, int thread) {
      StateAccumulator<T> running(states, item / spans, F, M);
      each_chunk(item % spans, [&](int64_t index) { visit(item / spans, thread, index, running); });
    });

  const int64_t summed = sides.read ? spans - 1 : spans;  // no span starts from the sum of all
  const SpanStates<T> own(ctx, shape, shape.batch_heads * summed, states.scale != nullptr);
  parallel_items(ctx, shape.batch_heads * summed, [&](int64_t slot, int thread) {
    own.clear(slot);
    StateAccumulator<T> sums(own.view(), slot, F, M);
    T decay = 0;
    each_chunk(slot % summed,
               [&](int64_t index) { decay += accumulate(slot / summed, thread, index, sums); });
    own.decay(slot) = decay;
  });
  parallel_items(ctx, shape.batch_heads, [&](int64_t bh, int) {
    for (int64_t slot = bh * summed; slot < (bh + 1) * summed; ++slot) {
      const bool first = slot == bh * summed;
      const StateAccumulator<T> before = first ? StateAccumulator<T>(states, bh, F, M)
                                               : StateAccumulator<T>(own.view(), slot - 1, F, M);
      StateAccumulator<T>(own.view(), slot, F, M).merge(before, own.decay(slot));
    }
  });
  if (sides.read)
    parallel_items(ctx, shape.batch_heads * spans, [&](int64_t item, int thread) {
      const int64_t bh = item / spans, span = item % spans;
      StateAccumulator<T> running =
          span == 0 ? StateAccumulator<T>(states, bh, F, M)
                    : StateAccumulator<T>(own.view(), bh * summed + span - 1, F, M);
      each_chunk(span, [&](int64_t index) { visit(bh, thread, index, running); });
    });
  for (int64_t bh = 0; bh < shape.batch_heads; ++bh) own.copy_to((bh + 1) * summed - 1, states, bh);
}

// A forward sweep: for each bh and chunk read(bh, thread, chunk, keys, running, empty, arena) where
// there are queries (`empty`: the state is empty); then the chunk's keys and values are added to
// the state.
template <typename T, typename Read>
void sweep_forward(Context& ctx, const ChunkShape& shape, const ChunkInput<T>& in,
                   const ChunkState<T>& states, const Read& read) {
  const int64_t each = chunk_workspace(shape);
  const Workspace<T> workspace(ctx, ctx.threads * each);
  const Sides sides{in.k.data != nullptr, in.q.data != nullptr};
  const auto visit_chunk = [&](int64_t bh, int thread, int64_t index, StateAccumulator<T>& running,
                               const Sides& asked) {
    Arena<T> arena(workspace.data() + thread * each);
    const Chunk chunk = chunk_at(shape, bh, index);
    Keys<T> keys;
    if (sides.update) keys = keys_of(shape, in, bh, chunk, states.scale != nullptr, arena);
    if (asked.read) read(bh, thread, chunk, keys.rows, running, shape.starts && index == 0, arena);
    if (!asked.update) return T(0);
    running.accumulate(keys.rows, value_rows(in.v, bh, chunk.first), nullptr, arena);
    running.decay(keys.decay);
    return keys.decay;
  };
  sweep_chunks(
      ctx, shape, states, false, sides,
      [&](int64_t bh, int thread, int64_t index, StateAccumulator<T>& running) {
        return visit_chunk(bh, thread, index, running, {true, false});
      },
      [&](int64_t bh, int thread, int64_t index, StateAccumulator<T>& running) {
        const bool needed =
            !(shape.ends && index + 1 == chunk_count(shape));  // is the outgoing state used?
        visit_chunk(bh, thread, index, running, {sides.update && needed, sides.read});
      });
}

}  // namespace linea::cpu
