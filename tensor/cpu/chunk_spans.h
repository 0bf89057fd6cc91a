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
  const auto state_of = [&](const ChunkState<T>& all, int64_t slot) {
    return StateAccumulator<T>(all, slot, F, M, shape.products == FloatProducts::rounded);
  };
  const auto each_chunk = [&](int64_t span, const auto& body) {
    for (int64_t n = chunks * span / spans; n < chunks * (span + 1) / spans; ++n)
      body(from_last ? chunks - 1 - n : n);
  };
  if (spans == 1 || !sides.update)
    return parallel_items(ctx, shape.batch_heads * spans, kGrain, [&](int64_t item, int thread) {
      StateAccumulator<T> running = state_of(states, item / spans);
      each_chunk(item % spans, [&](int64_t index) { visit(item / spans, thread, index, running); });
    });

  const int64_t summed = sides.read ? spans - 1 : spans;  // no span starts from the sum of all
  // A state for each bh and span, and the sum of the span's log decays.
  const int64_t slots = shape.batch_heads * summed;
  const Workspace<T> memory(ctx, slots * (F * M + 2 * F + 1));
  T *const key_sum = memory.data() + slots * F * M, *const scale = key_sum + slots * F;
  T* const decays = scale + slots * F;
  const ChunkState<T> own{memory.data(), key_sum, states.scale == nullptr ? nullptr : scale};
  parallel_items(ctx, slots, kGrain, [&](int64_t slot, int thread) {
    StateAccumulator<T> sums = state_of(own, slot);
    sums.clear();
    decays[slot] = 0;
    each_chunk(slot % summed, [&](int64_t index) {
      decays[slot] += accumulate(slot / summed, thread, index, sums);
    });
  });
  parallel_items(ctx, shape.batch_heads, kGrain, [&](int64_t bh, int) {
    for (int64_t slot = bh * summed; slot < (bh + 1) * summed; ++slot) {
      const bool first = slot == bh * summed;
      const StateAccumulator<T> before = first ? state_of(states, bh) : state_of(own, slot - 1);
      state_of(own, slot).merge(before, decays[slot]);
    }
  });
  if (sides.read)
    parallel_items(ctx, shape.batch_heads * spans, kGrain, [&](int64_t item, int thread) {
      const int64_t bh = item / spans, span = item % spans;
      StateAccumulator<T> running =
          span == 0 ? state_of(states, bh) : state_of(own, bh * summed + span - 1);
      each_chunk(span, [&](int64_t index) { visit(bh, thread, index, running); });
    });
  for (int64_t bh = 0; bh < shape.batch_heads; ++bh) {
    StateAccumulator<T> sums = state_of(states, bh);
    sums.clear();
    sums.merge(state_of(own, (bh + 1) * summed - 1), T(0));
  }
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
