// Arguments of kernels: sizes, layouts of rows, states and options. Letters as in tensor/kernels.h.
#pragma once

#include <concepts>
#include <cstdint>

#include "tensor/element.h"
#include "tensor/formulas.h"
#include "tensor/key_sets.h"

namespace linea {

struct PackedWeight;  // tensor/packed_weight.h

// C[i] = alpha op(A[i]) op(B[i]) + beta C[i] for i < batch; op(A) is [rows, inner], op(B) [inner,
// cols]. Matrix i starts i strides into its array; stride 0 repeats one matrix.
struct GemmShape {
  bool transpose_a = false, transpose_b = false;
  int64_t rows = 0, cols = 0, inner = 0;
  int64_t batch = 1, stride_a = 0, stride_b = 0, stride_c = 0;
  double alpha = 1, beta = 0;
  // period_b > 0: A[i] is multiplied by B[(first_b + i) % period_b], one B for each head
  int64_t first_b = 0, period_b = 0;
  // above 0: distance between rows of A (not transposed) and of C
  int64_t lead_a = 0, lead_c = 0;
  // Factors of heads that FloatProducts::rounded rounds on a CPU, as it rounds those of layers.
  bool rounds_heads = false;
  // Where a CPU saves B as it packs it, for further products by the weight; null: nowhere.
  PackedWeight* packed = nullptr;

  // Matrices that follow one another.
  void set_strides() {
    stride_a = rows * inner;
    stride_b = inner * cols;
    stride_c = rows * cols;
  }

  // Distances between rows of A as it is stored and of C.
  int64_t row_a() const { return lead_a > 0 ? lead_a : transpose_a ? rows : inner; }
  int64_t row_c() const { return lead_c > 0 ? lead_c : cols; }

  // B is a weight, not one matrix for each head.
  bool has_one_b() const { return stride_b == 0 && period_b == 0; }

  // An equivalent product where each A is one row (sampling): the rows multiplied by the same B
  // become one A.
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

// x [rows,in] times w [out,in], followed by gelu or not.
struct LinearShape {
  int64_t rows, out, in;
  bool gelu = false;
  PackedWeight* packed = nullptr;  // as in GemmShape
};

// A layer norm ahead of another operation. weight null: no norm; bias may be null.
template <typename T>
struct NormWeights {
  const T *weight = nullptr, *bias = nullptr;
};

// Where a layer stores the input of its GELU for a backward pass: in one of the dtypes, or nowhere.
template <typename T>
struct GeluInput {
  T* same = nullptr;
  BFloat16* rounded = nullptr;
};

inline constexpr int64_t kPanel = 32;  // columns of a panel of packed weights

// Rows [BH,rows,...] with one matrix for each head; bh belongs to head (first_bh + bh) % heads.
struct HeadShape {
  int64_t batch_heads, rows, features, key_size, first_bh, heads;
  FloatProducts products = FloatProducts::exact;
  LINEA_HOST_DEVICE int64_t head(int64_t bh) const { return (first_bh + bh) % heads; }
  // alpha times rows of key_size by the transposed matrices [features,key_size], or, not
  // `transposed`, rows of `features` by the matrices themselves.
  GemmShape product(bool transposed, double alpha, bool rounds) const {
    GemmShape gemm{.transpose_b = transposed,
                   .rows = rows,
                   .cols = transposed ? features : key_size,
                   .inner = transposed ? key_size : features,
                   .batch = batch_heads,
                   .alpha = alpha,
                   .first_b = first_bh,
                   .period_b = heads,
                   .rounds_heads = rounds};
    gemm.set_strides();
    return gemm;
  }
};

// y = x with its four outer axes reordered: y's axis a is x's axis axis[a]. `inner` elements are
// moved together.
struct PermuteShape {
  int64_t size[4];  // of x
  int axis[4];
  int64_t inner;
};

// Features as values, or as logs, which neither overflow nor underflow.
enum class FeatureKind : uint8_t { values, logs };

// One segment of a tile's sequences: positions first .. first + length - 1. Row i of the segment is
// row i of q and k. Matrix products process `chunk` rows at a time.
struct ChunkShape {
  int64_t batch_heads, length, features, values, chunk;
  int64_t first = 0;
  ValidKeys valid{};
  FeatureKind kind = FeatureKind::values;
  // The feature that the kernel computes from q and k (FeatureKind::values); dq and dk are then
  // gradients of q and k.
  KernelFeature feature = KernelFeature::given;
  // The incoming state is empty; the outgoing state is not used.
  bool starts = false, ends = false;
  FloatProducts products = FloatProducts::exact;
  // Rules without a denominator: what the state has for a key is subtracted from a new value; a log
  // decay of each feature, not one of the head.
  bool corrects = true, channel_decays = false;
};

// One row for each bh, `stride` elements apart; data may be null.
template <typename T>
struct Strided {
  T* data;
  int64_t stride;
  LINEA_HOST_DEVICE T* at(int64_t bh, int64_t first = 0) const {
    return data == nullptr ? nullptr : data + bh * stride + first;
  }
  template <std::same_as<const T> U>
  operator Strided<U>() const {
    return {data, stride};
  }
};

// Rows of BH sequences within [B,H,S,width] or within a slice of [B,S,slices x H x width]: row i of
// bh, the pair (b, h) with the index first_bh + bh, is at data + b batch + h head + i row.
template <typename T>
struct HeadRows {
  T* data = nullptr;
  int64_t batch = 0, head = 0, row = 0;
  int64_t heads = 1, first_bh = 0;
  LINEA_HOST_DEVICE T* at(int64_t bh, int64_t i) const {
    if (data == nullptr) return nullptr;
    // 32 bits: a division of 64 takes many instructions of a GPU.
    const auto index = static_cast<uint32_t>(first_bh + bh),
               of_batch = static_cast<uint32_t>(heads);
    return data + index / of_batch * batch + index % of_batch * head + i * row;
  }
  template <std::same_as<const T> U>
  operator HeadRows<U>() const {
    return {data, batch, head, row, heads, first_bh};
  }
};

// q, k and v, or their gradients.
template <typename T>
struct AttentionRows {
  HeadRows<T> q, k, v;
};

// Contiguous x [BH,S,width].
template <typename T>
HeadRows<T> head_rows(T* data, int64_t S, int64_t width) {
  return {data, S * width, 0, width, 1, 0};
}

// One segment of linear attention: queries and keys [BH,S,F], or what `ChunkShape::feature` is
// computed from; log weights of whole keys and log decays of positions [BH,S]; v [BH,S,M]. Null
// where absent: without q the segment only updates the state, without k it only reads it; absent
// weights and decays are 0.
template <typename T>
struct ChunkInput {
  HeadRows<const T> q{}, k{};
  Strided<const T> weight{}, decay{};
  HeadRows<const T> v{};
};

// One segment of a rule without a denominator: q, k [BH,S,F], v [BH,S,M]; without q the segment only
// updates the state. beta [BH,S], the weight of what is written, null where that is 1 and nothing is
// corrected; log_decay [BH,S], or [BH,S,F], null where the state does not decay.
template <typename T>
struct DeltaInput {
  const T *q, *k;
  Strided<const T> v, beta, log_decay{};
};
// The gradients of all of them.
template <typename T>
struct DeltaGradients {
  T *q, *k;
  Strided<T> v, beta, log_decay{};
};

// Log decays [BH,n] from gates, -A softplus(s u): A = rate exp(log_rate) of the head, s = -1 where
// negated.
struct DecayShape {
  int64_t batch_heads, heads, n;
  double rate = 1;
  bool negated = false;
};

// The running sums S [BH,F,M] and z [BH,F], to be multiplied per feature by exp(scale[BH,F]). scale
// is null for values without weights and decays, which need none.
template <typename A>
struct ChunkState {
  A *state, *key_sum, *scale;
};

// Features of keys [BH,capacity,F] and values [BH,capacity,M] not yet added to a state of plain
// sums; count[bh] < capacity of them are pending, and the update that would fill the buffer adds all
// of them to the state. capacity 0: updates are not delayed. With bf16 keys the state [BH,F,M] may be
// stored as split bf16 (cuda/split_float.h), of which a step that does not write it reads only the
// high part; M is then a multiple of kWideRows.
inline constexpr int64_t kMaxPending = 8, kWideRows = 8;
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

// Saved for the backward pass per row: the denominator, to be multiplied by exp(scale) (and, with
// log features, by the row's own largest query feature); scale is null as in ChunkState.
template <typename A>
struct ChunkRows {
  Strided<A> denominator, scale;
};

// A causal depthwise convolution of B sequences of N positions and C columns: position n reads the
// positions n - offset[t], t < count. In images of `width` pixels of `channels` positions each,
// position n predicts a channel of its pixel, and offset t reads the same channel of the pixel
// rows_up[t] rows above and column_shift[t] columns to the right, or nothing beyond the border. The
// position of that channel is one later, and position 0 is no pixel: offsets without a row and
// column count positions alone. Row 0 of a part of sequences has the position `first`. Where rows are
// only some of the positions, `from` and `to` name the row that each reads and that reads it.
struct ConvolutionShape {
  static constexpr int kMaxOffsets = 6;
  int count = 0;
  int64_t offset[kMaxOffsets] = {};
  int64_t rows_up[kMaxOffsets] = {}, column_shift[kMaxOffsets] = {};
  int64_t width = 0, channels = 1;  // width 0: no images
  int64_t B = 0, N = 0, C = 0;
  int64_t first = 0;
  const int32_t *from = nullptr, *to = nullptr;  // [B,N,count], -1: none; null: all positions

  // Whether row n reads with offset t.
  LINEA_HOST_DEVICE bool reads(int t, int64_t n) const {
    const int64_t position = first + n;
    if (n < offset[t] || position < rows_up[t] * width * channels) return false;
    if (width == 0) return true;
    const int64_t column = position / channels % width + column_shift[t];
    return column >= 0 && column < width;
  }
  // The row of sequence b that row n reads with offset t, and the one that reads row n; -1: none.
  LINEA_HOST_DEVICE int64_t source(int t, int64_t b, int64_t n) const {
    if (from != nullptr) return from[(b * N + n) * count + t];
    return reads(t, n) ? n - offset[t] : -1;
  }
  LINEA_HOST_DEVICE int64_t reader(int t, int64_t b, int64_t n) const {
    if (to != nullptr) return to[(b * N + n) * count + t];
    return n + offset[t] < N && reads(t, n + offset[t]) ? n + offset[t] : -1;
  }
  // Positions whose rows the recurrent form keeps.
  LINEA_HOST_DEVICE int64_t ring() const {
    int64_t largest = 0;
    for (int t = 0; t < count; ++t) largest = offset[t] > largest ? offset[t] : largest;
    return largest + 1;
  }
};

// A row of a model's outputs: V logits, or a mixture of logistics on V levels (formulas.h).
enum class OutputKind : uint8_t { logits, logistics };

// Scores are divided by the temperature; then the top_k most likely tokens are kept (0: all), and
// of those the smallest set whose probability reaches top_p (Holtzman 2020). Ties: lower index
// first.
struct SamplingParams {
  double temperature = 1;
  int64_t top_k = 0;
  double top_p = 1;
  int64_t first_row = 0;  // row r uses the random number with index first_row + r
  bool greedy = false;    // always the most likely token
};

// Sampling state on the device, per row: the token that the next position reads, that position,
// the number of sampled tokens, and a ring buffer [capacity,rows] of the last tokens. All but
// `tokens` may be null.
struct SampledTokens {
  int32_t *tokens, *positions, *count, *token_buffer;
  int64_t rows, capacity;

  LINEA_HOST_DEVICE int32_t num_sampled(int64_t r) const { return count == nullptr ? 0 : count[r]; }
  LINEA_HOST_DEVICE void append(int64_t r, int32_t token) const {
    tokens[r] = token;
    if (token_buffer != nullptr) token_buffer[num_sampled(r) % capacity * rows + r] = token;
    if (positions != nullptr) ++positions[r];
    if (count != nullptr) ++count[r];
  }
};

// n numbers to convert to another type.
template <typename From, typename To>
struct CastSpan {
  const From* from;
  To* to;
  int64_t n;
};

struct AdamConstants {
  double beta1, beta2, epsilon;
};

// A parameter of n elements with its gradient and the optimizer's moments.
template <typename T>
struct TrainedParameter {
  const T* gradient;
  T* parameter;
  Accumulator<T>*mean, *square;
  int64_t n;
  double weight_decay;
};

// The iteration of Muon, X -> (a I + b A + c A A) X with A = X X^T (Jordan 2024).
inline constexpr int kMuonIterations = 5;
inline constexpr double kMuonA = 3.4445, kMuonB = -4.7750, kMuonC = 2.0315;

// rate: Muon's learning rate as a multiple of StepParams::learning_rate.
struct MuonConstants {
  double momentum, rate, weight_decay;
};

// A matrix [rows,cols] that Muon trains.
template <typename T>
struct MuonMatrix {
  const T* gradient;
  T* parameter;
  Accumulator<T>* momentum;
  int64_t rows, cols;
};

}  // namespace linea
