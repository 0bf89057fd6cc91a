// Shared by the kernels of the sum rule: the running state, and how rows update and read it. Row
// vectors throughout; for one (batch, head), with the state S [F,M] and the key sum z [F]:
//
//   S_i = S_{i-1} + w_i k_i^T v_i    z_i = z_{i-1} + w_i k_i
//   d_i = q_i z_i^T                  y_i = q_i S_i / d_i
//
// Values without weights and decays are summed directly. All else is stored relative to a
// logarithm, so that nothing overflows or underflows and no row depends on a later key:
//   a row of log features   exp(log - top), top = its largest log: between 0 and 1
//   a key j                 has the weight exp(o_j), o_j = top_j + log w_j - L_j, L_j the sum of the
//                           chunk's log decays up to j (a decay of rows and state cancels in y)
//   a feature f of S and z  is multiplied by exp(scale_f), the largest log added to it
//   a row i of the sums     is multiplied by exp(m_i), the largest log that it has seen
// One class holds the states of the forward sweep (keys with values) and of the backward sweep
// (queries with gradients).
#pragma once

#include "tensor/cpu/chunk_bands.h"

namespace linea::cpu {

// Logs within this range of each other may be factors of one product; the loss is exp(-87 + 40) in
// float.
inline constexpr double kMaxLogRange = 40;
// The running state as the rows of a chunk read it: row i gets features[i] state exp(scale[i]).
template <typename T>
struct Reading {
  const T *features = nullptr, *state = nullptr,
          *key_sum = nullptr;  // state null: empty
  const T* scale = nullptr;    // [count]; null: all 0
  bool own_features = false;   // features include the state's scales, unlike those of the rows
};

// The state of one (batch, head). Each method names what it takes from an arena.
template <typename T>
class StateAccumulator {
 public:
  StateAccumulator(const ChunkState<T>& all, int64_t bh, const ChunkShape& shape)
      : F_(shape.features),
        M_(shape.values),
        rounded_(shape.products == FloatProducts::rounded),
        state_(all.state + bh * F_ * M_),
        key_sum_(all.key_sum + bh * F_),
        scale_(all.scale == nullptr ? nullptr : all.scale + bh * F_) {}

  // S += sum_i features_i^T x_i, z += sum_i weight_i features_i; weight null: 1.
  // Arena: C (F + M) + F M + 2 F.
  void accumulate(const Rows<T>& rows, const Operand<T>& x, const T* weight, Arena<T> arena) {
    if (rows.count == 0 || F_ == 0) return;
    if (scale_ == nullptr) return sum_up(rows.features, x, weight, rows.count, state_, key_sum_);
    if (rows.logs == nullptr) return accumulate_values(rows, x, weight, arena);
    accumulate_logs(rows, x, weight, arena);
  }

  // Multiplies the state by exp(log).
  void decay(T log) {
    if (scale_ == nullptr || log == T(0)) return;
    for (int64_t f = 0; f < F_; ++f) scale_[f] += log;
  }

  // Arena: C F + C + F M + F.
  Reading<T> read(const Rows<T>& rows, bool empty, Arena<T>& arena) const {
    if (scale_ == nullptr) return {rows.features, empty ? nullptr : state_, key_sum_};
    const T max = largest(scale_, F_);
    T* scale = arena.take(rows.count);
    std::fill_n(scale, rows.count, max);
    if (empty || max == kNothing<T>) return {rows.features, nullptr, key_sum_, scale};
    if (rows.logs == nullptr) return {rows.features, state_, key_sum_, scale};
    const T min = *std::min_element(scale_, scale_ + F_);
    if (max - min <= T(kMaxLogRange)) {
      T *state = arena.take(F_ * M_), *key_sum = arena.take(F_);
      for (int64_t f = 0; f < F_; ++f) {
        const T by = exp_of(scale_[f] - max);
        key_sum[f] = by * key_sum_[f];
        for (int64_t m = 0; m < M_; ++m) state[f * M_ + m] = by * state_[f * M_ + m];
      }
      return {rows.features, state, key_sum, scale};
    }
    T* features = arena.take(rows.count * F_);
    for (int64_t i = 0; i < rows.count; ++i) {
      const T* logs = rows.logs + i * F_;
      T* out = features + i * F_;
      for (int64_t f = 0; f < F_; ++f) out[f] = logs[f] + scale_[f];
      const T top = largest(out, F_);
      scale[i] = top - rows.top[i];
#pragma omp simd
      for (int64_t f = 0; f < F_; ++f) out[f] = exp_below(out[f] - top);
      if (top == kNothing<T>) std::fill_n(out, F_, T(0));
    }
    return {features, state_, key_sum_, scale, true};
  }

 private:
  // The chunk is summed first: terms far smaller than z, added one by one, would all be rounded in
  // the same direction, an error that grows with the length.
  void sum_up(const T* features, const Operand<T>& x, const T* weight, int64_t count, T* state,
              T* key_sum) const {
    multiply(rounded_, {F_, M_, count}, transposed(features, F_), x, {state, M_}, true,
             Arena<T>(nullptr));
    const T one = 1;
    const Operand<T> weights = weight == nullptr ? Operand<T>{&one, 0, 0} : plain(weight, count);
    tile_gemm(1, F_, count, weights, features, F_, key_sum, F_, true);
  }

  void rescale(int64_t f, T to) {
    if (scale_[f] == to) return;
    const T by = factor(scale_[f], to);
    scale_row(state_ + f * M_, M_, by);
    key_sum_[f] *= by;
    scale_[f] = to;
  }

  // x and weight times exp(offset - reference), in the arena.
  std::pair<Operand<T>, T*> weighed(const Rows<T>& rows, const Operand<T>& x, const T* weight,
                                    T reference, Arena<T>& arena) const {
    T *scaled = arena.take(rows.count * M_), *weights = arena.take(rows.count);
    for (int64_t i = 0; i < rows.count; ++i) {
      const T by = factor(rows.offset[i], reference);
      weights[i] = weight == nullptr ? by : by * weight[i];
      for (int64_t m = 0; m < M_; ++m) scaled[i * M_ + m] = by * x.data[i * x.row + m];
    }
    return {{scaled, M_}, weights};
  }

  void accumulate_values(const Rows<T>& rows, const Operand<T>& x, const T* weight,
                         Arena<T> arena) {
    const T max = std::max(largest(rows.offset, rows.count), scale_[0]);
    if (max == kNothing<T>) return;
    for (int64_t f = 0; f < F_; ++f) rescale(f, max);
    const auto [scaled, weights] = weighed(rows, x, weight, max, arena);
    sum_up(rows.features, scaled, weights, rows.count, state_, key_sum_);
  }

  void accumulate_logs(const Rows<T>& rows, const Operand<T>& x, const T* weight, Arena<T> arena) {
    T* column = arena.take(F_);  // the largest log of each feature in the chunk
    std::fill_n(column, F_, kNothing<T>);
    for (int64_t i = 0; i < rows.count; ++i) {
      const T* logs = rows.logs + i * F_;
      const T shift = rows.offset[i] - rows.top[i];
#pragma omp simd
      for (int64_t f = 0; f < F_; ++f) {
        const T log = logs[f] + shift;  // std::max, a reference, would not be vectorized
        column[f] = column[f] < log ? log : column[f];
      }
    }
    const T max = largest(column, F_);
    if (max == kNothing<T>) return;
    T min = max;
    for (int64_t f = 0; f < F_; ++f)
      if (column[f] != kNothing<T>) min = std::min(min, column[f]);
    for (int64_t f = 0; f < F_; ++f)
      if (column[f] > scale_[f]) rescale(f, column[f]);

    if (max - min <= T(kMaxLogRange)) {
      T *state = arena.take(F_ * M_), *key_sum = arena.take(F_);
      std::fill_n(state, F_ * M_, T(0));
      std::fill_n(key_sum, F_, T(0));
      const auto [scaled, weights] = weighed(rows, x, weight, max, arena);
      sum_up(rows.features, scaled, weights, rows.count, state, key_sum);
      for (int64_t f = 0; f < F_; ++f) {
        if (column[f] == kNothing<T>) continue;
        const T by = exp_of(max - scale_[f]);
        add_row(state + f * M_, state_ + f * M_, M_, by);
        key_sum_[f] += by * key_sum[f];
      }
      return;
    }
    T* features = arena.take(rows.count * F_);
    for (int64_t i = 0; i < rows.count; ++i) {
      const T* logs = rows.logs + i * F_;
      const T shift = rows.offset[i] - rows.top[i];
      for (int64_t f = 0; f < F_; ++f) features[i * F_ + f] = factor(logs[f] + shift, scale_[f]);
    }
    sum_up(features, x, weight, rows.count, state_, key_sum_);
  }

  int64_t F_, M_;
  bool rounded_;
  T *state_, *key_sum_, *scale_;
};

// The shape as this context multiplies.
template <typename T>
ChunkShape with_products(const Context& ctx, ChunkShape shape, const ChunkInput<T>& in) {
  shape.products = chunk_products(ctx, in.decay.data != nullptr);
  return shape;
}

// One chunk of a sweep over the segment: its keys and values, and the arena that is left for it.
template <typename T>
struct ChunkWork : Chunk {
  const ChunkShape& shape;
  int64_t bh;
  bool empty, last;  // the running state is empty; no chunk reads it after this one
  Arena<T> arena;
  Rows<T> k{};
  Operand<T> v{};

  void take_keys(const ChunkInput<T>& in, bool scaled) {
    k = keys_of(shape, in, bh, *this, scaled, arena);
    v = value_rows(in.v, bh, first);
  }
};

// Workspace of one thread for any of the kernels: the arenas above and the chunk's own matrices.
inline int64_t chunk_workspace(const ChunkShape& shape) {
  const int64_t C = shape.chunk, F = shape.features, M = shape.values;
  return 10 * C * F + 3 * C * C + 5 * C * M + 3 * F * M + 6 * F + 13 * C;
}

// body(chunk, running) for each chunk of each bh, with an arena of `each` elements, in their order or,
// `back`, from the last to the first. The states have rows of `values`.
template <typename T, typename Body>
void each_chunk(Context& ctx, const ChunkShape& shape, const ChunkState<T>& states, int64_t values,
                int64_t each, bool back, const Body& body) {
  const int64_t last = chunk_count(shape) - 1;
  ChunkShape of_states = shape;
  of_states.values = values;
  parallel_arenas<T>(ctx, shape.batch_heads, kGrain, each, [&](int64_t bh, Arena<T> arena) {
    StateAccumulator<T> running(states, bh, of_states);
    for (int64_t i = 0; i <= last; ++i)
      body(ChunkWork<T>{chunk_at(shape, bh, back ? last - i : i), shape, bh, shape.starts && i == 0,
                        shape.ends && i == last, arena},
           running);
  });
}

// A forward sweep: read(chunk, running) where there are queries, `running` being the state before the
// chunk; then the chunk's keys and values are added to it.
template <typename T, typename Read>
void sweep_forward(Context& ctx, const ChunkShape& shape, const ChunkInput<T>& in,
                   const ChunkState<T>& states, const Read& read) {
  const bool updates = in.k.data != nullptr;
  each_chunk(ctx, shape, states, shape.values, chunk_workspace(shape), false,
             [&](ChunkWork<T> chunk, StateAccumulator<T>& running) {
               if (updates) chunk.take_keys(in, states.scale != nullptr);
               if (in.q.data != nullptr) read(chunk, running);
               if (!updates || chunk.last) return;
               running.accumulate(chunk.k, chunk.v, nullptr, chunk.arena);
               running.decay(chunk.k.decay);
             });
}

}  // namespace linea::cpu
