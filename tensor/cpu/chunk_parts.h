// Where there are fewer pairs than threads, the chunks of a pair are dealt out to several parts, in
// the order in which they are swept:
//
//   each part sums its own rows, from nothing
//   these sums are added up in order: what stands before a part is where it starts
//   the parts are swept in parallel
//
// It costs one more summing of the rows and a state a part. Parts depend on the number of threads,
// so bits do too.
#pragma once

#include "tensor/cpu/chunk.h"

namespace linea::cpu {

// At least four chunks a part: with fewer the additional sums eat up what is won.
inline int64_t parts_of(const Context& ctx, const ChunkShape& shape) {
  const int64_t per_bh =
      omp_in_parallel() ? 1 : ctx.threads / std::max<int64_t>(shape.batch_heads, 1);
  return std::clamp<int64_t>(per_bh, 1, std::max<int64_t>(chunk_count(shape) / 4, 1));
}

// A state a pair and part, and the sum of the log decays of that part.
template <typename T>
class PartStates {
 public:
  PartStates(Context& ctx, const ChunkShape& shape, int64_t slots, bool scaled)
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

// Which of a chunk's sides there are: rows that join the state, rows that read it.
struct Sides {
  bool join, read;
};

// visit(pair, thread, index, carried) for every chunk of every pair, from the first or from the
// last, each after those before it have joined `carried`; join(the same) lets a chunk join and
// returns the log decay of the state on its way.
template <typename T, typename Join, typename Visit>
void sweep_chunks(Context& ctx, const ChunkShape& shape, const ChunkState<T>& states,
                  bool from_last, const Sides& sides, const Join& join, const Visit& visit) {
  const int64_t F = shape.features, M = shape.values, chunks = chunk_count(shape),
                parts = parts_of(ctx, shape);
  const auto each_chunk = [&](int64_t part, const auto& body) {
    for (int64_t n = chunks * part / parts; n < chunks * (part + 1) / parts; ++n)
      body(from_last ? chunks - 1 - n : n);
  };
  if (parts == 1 || !sides.join)
    return parallel_items(ctx, shape.batch_heads * parts, [&](int64_t item, int thread) {
      StateAccumulator<T> running(states, item / parts, F, M);
      each_chunk(item % parts, [&](int64_t index) { visit(item / parts, thread, index, running); });
    });

  const int64_t summed = sides.read ? parts - 1 : parts;  // nothing starts from all of them
  const PartStates<T> own(ctx, shape, shape.batch_heads * summed, states.scale != nullptr);
  parallel_items(ctx, shape.batch_heads * summed, [&](int64_t slot, int thread) {
    own.clear(slot);
    StateAccumulator<T> sums(own.view(), slot, F, M);
    T decay = 0;
    each_chunk(slot % summed,
               [&](int64_t index) { decay += join(slot / summed, thread, index, sums); });
    own.decay(slot) = decay;
  });
  parallel_items(ctx, shape.batch_heads, [&](int64_t bh, int) {
    for (int64_t slot = bh * summed; slot < (bh + 1) * summed; ++slot) {
      const bool first = slot == bh * summed;
      const StateAccumulator<T> before = first ? StateAccumulator<T>(states, bh, F, M)
                                               : StateAccumulator<T>(own.view(), slot - 1, F, M);
      StateAccumulator<T>(own.view(), slot, F, M).add(before, own.decay(slot));
    }
  });
  if (sides.read)
    parallel_items(ctx, shape.batch_heads * parts, [&](int64_t item, int thread) {
      const int64_t bh = item / parts, part = item % parts;
      StateAccumulator<T> running =
          part == 0 ? StateAccumulator<T>(states, bh, F, M)
                    : StateAccumulator<T>(own.view(), bh * summed + part - 1, F, M);
      each_chunk(part, [&](int64_t index) { visit(bh, thread, index, running); });
    });
  for (int64_t bh = 0; bh < shape.batch_heads; ++bh) own.copy_to((bh + 1) * summed - 1, states, bh);
}

// A sweep forward: for each pair and chunk read(pair, thread, chunk, keys, carried, empty, arena)
// where there are queries, `empty` where the state holds nothing yet; then the chunk's keys and
// values join the state.
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
    if (sides.join) keys = keys_of(shape, in, bh, chunk, states.scale != nullptr, arena);
    if (asked.read) read(bh, thread, chunk, keys.rows, running, shape.starts && index == 0, arena);
    if (!asked.join) return T(0);
    running.absorb(keys.rows, value_rows(in.v, bh, chunk.first), nullptr, arena);
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
            !(shape.ends && index + 1 == chunk_count(shape));  // does anything read what it leaves?
        visit_chunk(bh, thread, index, running, {sides.join && needed, sides.read});
      });
}

}  // namespace linea::cpu
