// The parameters of kernels besides tensors: sizes, where rows lie, what a mechanism
// carries. The letters are those of tensor/kernels.h.
#pragma once

#include <cstdint>

#include "tensor/element.h"
#include "tensor/formulas.h"

namespace linea {

// C[b] = alpha op(A[b]) op(B[b]) + beta C[b] for b < batch; op(A) is [rows, inner], op(B) [inner,
// cols]. Strides lead from one b to the next; 0 repeats a matrix.
struct GemmShape {
  bool transpose_a = false, transpose_b = false;
  int64_t rows = 0, cols = 0, inner = 0;
  int64_t batch = 1, stride_a = 0, stride_b = 0, stride_c = 0;
  double alpha = 1, beta = 0;
  int64_t first_b = 0,
          period_b = 0;  // where above 0, A[b] meets B[(first_b + b) % period_b]: one B a head
  int64_t lead_a = 0,
          lead_c = 0;  // where above 0, rows of A (not transposed) and of C lie so far apart

  // The same where each A is a single row, as in sampling: those that meet one B are the rows of
  // one A.
  GemmShape with_rows_together() const {
    GemmShape all = *this;
    if (rows != 1 || transpose_a || period_b <= 0 || first_b != 0 || batch % period_b != 0 ||
        stride_a == 0)
      return all;
    all.rows = batch / period_b;
    all.batch = period_b;
    all.lead_a = period_b * stride_a;
    all.lead_c = period_b * stride_c;
    all.period_b = 0;
    return all;
  }
};

// x [rows,in] times w [out,in], each row of the result then as it is or by gelu.
struct LinearShape {
  int64_t rows, out, in;
  bool gelu = false;
};

// Of a layer norm that comes before something else: weight and bias, which may be null; without a
// weight there is none.
template <typename T>
struct NormWeights {
  const T *weight = nullptr, *bias = nullptr;
};

inline constexpr int64_t kPanel = 32;  // columns of a panel of weights

// P pairs of rows, pair p of the head (first_bh + p) % heads, against something of each head.
struct HeadShape {
  int64_t batch_heads, rows, features, key_size, first_bh, heads;
  FloatProducts products = FloatProducts::exact;
  LINEA_HOST_DEVICE int64_t head(int64_t bh) const { return (first_bh + bh) % heads; }
};

// y[i0,i1,i2,i3,:] = x at the same place with its axes in the order `axis`: y's axis a is x's axis
// axis[a]. `inner` elements move together.
struct PermuteShape {
  int64_t size[4];  // of x
  int axis[4];
  int64_t inner;
};

// How many keys of each sequence exist; the others are padding and never seen. count is null where
// all do; else pair p of a tile has count[(first_bh + p) / heads].
struct ValidKeys {
  const int32_t* count = nullptr;
  int64_t heads = 1, first_bh = 0;
};

// How the features of a tile are given: as values, or as logs, which neither overflow nor vanish.
enum class FeatureKind : uint8_t { values, logs };

// One segment, positions first .. first + length - 1, of the P sequences of a tile. Row i of the
// segment is row i of q and k; `chunk` rows at a time are done as matrix products.
struct ChunkShape {
  int64_t batch_heads, length, features, values, chunk;
  int64_t first = 0;
  ValidKeys valid{};
  FeatureKind kind = FeatureKind::values;
  KernelFeature feature =
      KernelFeature::given;  // of values; a kernel's dq and dk are those of what it was given
  bool starts = false,
       ends = false;  // the state that comes in holds nothing; what goes out is not needed
  FloatProducts products = FloatProducts::exact;
};

// Rows of `run` elements, one for each pair, `stride` elements apart.
template <typename T>
struct Strided {
  T* data;
  int64_t stride;
  LINEA_HOST_DEVICE T* at(int64_t bh) const {
    return data == nullptr ? nullptr : data + bh * stride;
  }
};

// Rows of P pairs where they lie, in [B,H,S,width] or in a part of [B,S,parts x H x width]: row i
// of pair p, the (batch, head) b, h that first_bh + p numbers, is at data + b batch + h head + i
// row.
template <typename T>
struct HeadRows {
  T* data = nullptr;
  int64_t batch = 0, head = 0, row = 0;
  int64_t heads = 1, first_bh = 0;
  LINEA_HOST_DEVICE T* at(int64_t bh, int64_t i) const {
    if (data == nullptr) return nullptr;
    const int64_t p = first_bh + bh;
    return data + p / heads * batch + p % heads * head + i * row;
  }
};

// x [P,S,width] in one piece.
template <typename T>
HeadRows<T> head_rows(T* data, int64_t S, int64_t width) {
  return {data, S * width, 0, width, 1, 0};
}

// One row of each pair, `stride` elements apart.
template <typename T>
HeadRows<T> one_row(T* data, int64_t stride) {
  return {data, stride};
}

// What the sum rule folds and reads in one segment, for P pairs: queries and keys [P,S,F], which
// are features unless the shape names a feature that is still to be made of them; logs of weights
// of whole keys and of the decay at each position [P,S]; v [P,S,M]. Null: not there (without q a
// segment is only absorbed, without k only read; without weight and decay these are 0).
template <typename T>
struct ChunkInput {
  HeadRows<const T> q{}, k{};
  Strided<const T> weight{}, decay{};
  HeadRows<const T> v{};
};

// The carried sums: S [P,F,M], z [P,F], each feature f of them to be multiplied by exp(scale[P,F]);
// scale is null where no number needs one (values without weights or decays).
template <typename A>
struct ChunkState {
  A *state, *key_sum, *scale;
};

// Keys [BH,capacity,F] and values [BH,capacity,M] not yet added to a state of plain sums;
// count[bh] < capacity of them are pending, and the update that would fill the buffer adds all of
// them to the state. capacity 0: updates are not delayed. Beside bf16 keys the state [BH,F,M] may
// be stored as split bf16 (SplitFloat), of which a step that does not write it reads only the high
// part; M is then a multiple of kWideRows.
inline constexpr int64_t kMaxPending = 8, kWideRows = 4;
template <typename T>
struct PendingUpdates {
  T *keys = nullptr, *values = nullptr;
  int32_t* count = nullptr;
  int64_t capacity = 0;
  BFloat16 *high = nullptr, *low = nullptr;
};

// What the kernels of one device read and update of a RecurrentState.
template <typename T>
struct RecurrentView {
  ChunkState<Accumulator<T>> sums;
  PendingUpdates<T> pending;
};

// What the forward pass keeps of each row: the denominator, to be multiplied by exp(scale) (and, of
// logs, by the row's own largest query feature); scale is null as it is in ChunkState.
template <typename A>
struct ChunkRows {
  Strided<A> denominator, scale;
};

// Softmax attention of P pairs: q [P,queries,D], k [P,keys,D], v [P,keys,M]. When causal, query i
// sees keys 0 .. i + (keys - queries). Scores are scaled by `scale`.
struct SoftmaxShape {
  int64_t batch_heads, queries, keys, key_size, value_size;
  ValidKeys valid;
  double scale;
  bool causal;
  FloatProducts products = FloatProducts::exact;
};

// What a row of a model's outputs is, of V tokens: a logit each, or a mixture of logistics on V
// levels (formulas.h).
enum class OutputKind : uint8_t { logits, logistics };

// How one token is sampled: scores are divided by the temperature; then only the top_k likeliest
// tokens stay (0: all), and of those the fewest likeliest whose share reaches top_p (Holtzman
// 2020). Of equals the first is the likelier.
struct SamplingParams {
  double temperature = 1;
  int64_t top_k = 0;
  double top_p = 1;
  int64_t first_row = 0;  // row r takes the random number first_row + r
  bool greedy = false;    // the likeliest token always
};

// What sampling passes from a position to the next without the host, of each row: the token that
// the next one reads, its place in the model, how many positions were sampled, and the last of
// their tokens [capacity,rows], the one that came after n others in line n % capacity. All but the
// tokens may be null.
struct SampledTokens {
  int32_t *tokens, *place, *count, *token_buffer;
  int64_t rows, capacity;

  LINEA_HOST_DEVICE int32_t already(int64_t r) const { return count == nullptr ? 0 : count[r]; }
  LINEA_HOST_DEVICE void keep(int64_t r, int32_t token) const {
    tokens[r] = token;
    if (token_buffer != nullptr) token_buffer[already(r) % capacity * rows + r] = token;
    if (place != nullptr) ++place[r];
    if (count != nullptr) ++count[r];
  }
};

// n numbers of one type that become those of another.
template <typename From, typename To>
struct CastSpan {
  const From* from;
  To* to;
  int64_t n;
};

struct AdamConstants {
  double beta1, beta2, epsilon;
};

// A parameter of n elements and what the optimizer holds of it.
template <typename T>
struct TrainedParameter {
  const T* gradient;
  T* parameter;
  Accumulator<T>*mean, *square;
  int64_t n;
  double weight_decay;
};

}  // namespace linea
