// Causal depthwise convolutions; formulas in tensor/cpu/convolution.cpp. A thread owns neighboring
// columns of a sequence, 16 bytes where rows are aligned, and walks a stretch of its positions.
#include "cuda/columns.h"
#include "cuda/elements.h"
#include "cuda/kernel_tables.h"

namespace linea::cuda {
namespace {

// Text has at most four offsets, and no rows of pixels.
constexpr int kTextTaps = 4, kMaxTaps = ConvolutionShape::kMaxOffsets;

// The offsets as a walk over n needs them, without divisions: offset t adds the row n +
// step[t] to n where 0 <= n - low[t] < span[t] and the place of the reader in its row of pixels,
// (n + lead[t]) % row, has a column shift[t] places away. Forward n reads; backward it is read.
struct Taps {
  unsigned row, span[kMaxTaps] = {};
  int step[kMaxTaps] = {}, lead[kMaxTaps] = {}, low[kMaxTaps] = {}, shift[kMaxTaps] = {};

  Taps(const ConvolutionShape& shape, bool backward) {
    const int64_t pixels = shape.width * shape.channels;
    row = static_cast<unsigned>(std::max<int64_t>(pixels, 1));
    for (int t = 0; t < shape.count; ++t) {
      const int64_t offset = shape.offset[t], start = shape.rows_up[t] * pixels - shape.first;
      const int64_t first = std::max(offset, start) - (backward ? offset : 0);
      const int64_t end = shape.N - (backward ? offset : 0);
      span[t] = static_cast<unsigned>(std::max<int64_t>(end - first, 0));
      low[t] = static_cast<int>(first);
      step[t] = static_cast<int>(backward ? offset : -offset);
      lead[t] = static_cast<int>(shape.first + (backward ? offset : 0));
      shift[t] = pixels == 0 ? 0 : static_cast<int>(shape.column_shift[t] * shape.channels);
    }
  }
};

// Stretches of a sequence: about as many threads as a large GPU holds, at least 16 positions each.
struct Stretches {
  uint32_t count, length, N, groups;  // groups of columns

  explicit Stretches(const ConvolutionShape& shape, int width = 1) {
    constexpr int64_t kColumns = 1 << 20, kShortest = 16;
    N = static_cast<uint32_t>(shape.N);
    groups = static_cast<uint32_t>(shape.C / width);
    const int64_t wanted = (kColumns - 1) / std::max<int64_t>(shape.B * shape.C, 1) + 1;
    const int64_t longest = std::max((shape.N + wanted - 1) / wanted, kShortest);
    length = static_cast<uint32_t>(longest);
    count = static_cast<uint32_t>((shape.N + longest - 1) / longest);
  }
};

enum class Of { forward, backward, weights };

// A thread for each group of columns of each stretch of each sequence b:
//   forward, backward  y[b,n] = sum_t w[t] x[b, n + step_t]
//   weights            y[b,stretch,t] = sum of w[b,n] x[b, n + step_t] over the stretch; w is dy
// kNamed: shape.from and shape.to name the rows n + step_t.
template <Of kOf, typename T, int kTaps, int kWidth, bool kNamed>
struct Convolved {
  using A = Accumulator<T>;
  static constexpr bool kWeights = kOf == Of::weights, kBackward = kOf == Of::backward,
                        kImages = kTaps > kTextTaps && !kNamed;
  ConvolutionShape shape;
  Taps taps;
  Stretches stretches;
  const T *x, *w;
  std::conditional_t<kWeights, A, T>* y;

  __device__ void operator()(int64_t i) const {
    const uint32_t item = static_cast<uint32_t>(i), rows = item / stretches.groups;
    const uint32_t n0 = rows % stretches.count * stretches.length;
    const int64_t c = item % stretches.groups * kWidth, b = rows / stretches.count;
    const int C = static_cast<int>(shape.C);
    A held[kTaps][kWidth] = {};  // the weights, or the sums
    for (int t = 0; t < kTaps && !kWeights; ++t)
      if (t < shape.count) widen_elements(load_elements<T, kWidth>(w + t * C + c), held[t]);
    constexpr int kPlaces = kBackward ? kTaps : 1;  // else n is the reader
    uint32_t place[kPlaces];
    for (int t = 0; t < kPlaces; ++t) place[t] = (n0 + taps.lead[t]) % taps.row;
    const int32_t* const rows_named =
        kNamed ? (kBackward ? shape.to : shape.from) + b * shape.N * shape.count : nullptr;
    const int64_t first = (b * shape.N + n0) * C + c;
    const T *from = x + first, *dy = kWeights ? w + first : w;
    auto* to = y + (kWeights ? int64_t{rows} * shape.count * C + c : first);
    for (uint32_t n = n0; n < min(n0 + stretches.length, stretches.N); ++n) {
      bool reads[kTaps];
      Elements<T, kWidth> read[kTaps];  // requested together, each from a row that is there
#pragma unroll
      for (int t = 0; t < kTaps; ++t) {
        int step = taps.step[t];
        if constexpr (kNamed) {
          const int named = t < shape.count ? rows_named[n * shape.count + t] : -1;
          reads[t] = named >= 0;
          step = named - static_cast<int>(n);
        } else {
          reads[t] = n - taps.low[t] < taps.span[t] &&
                     (!kImages || place[kBackward ? t : 0] + taps.shift[t] < taps.row);
        }
        read[t] = load_elements<T, kWidth>(from + (reads[t] ? step * C : 0));
      }
      A of_n[kWidth] = {};  // dy, or y
      if (kWeights) widen_elements(load_elements<T, kWidth>(dy), of_n);
#pragma unroll
      for (int t = 0; t < kTaps; ++t)
#pragma unroll
        for (int e = 0; e < kWidth; ++e)
          if (reads[t])
            (kWeights ? held[t][e] : of_n[e]) += (kWeights ? of_n[e] : held[t][e]) * read[t].at(e);
      if constexpr (!kWeights) store_elements(of_n, to);
      for (int t = 0; t < kPlaces && kImages; ++t)
        place[t] = min(place[t] + 1, place[t] + 1 - taps.row);  // which wraps around below 0
      from += C, dy += kWeights ? C : 0, to += kWeights ? 0 : C;
    }
    for (int t = 0; t < kTaps && kWeights; ++t)
      if (t < shape.count) store_elements(held[t], to + t * C);
  }
};

template <Of kOf, typename T, typename Y>
void convolve(Context& ctx, const ConvolutionShape& shape, const T* x, const T* w, Y* y) {
  const auto start = [&](auto taps, auto width, auto named) {
    const Stretches stretches(shape, width);
    for_each(ctx, shape.B * stretches.count * stretches.groups,
             Convolved<kOf, T, taps, width, named>{shape, Taps(shape, kOf == Of::backward),
                                                   stretches, x, w, y});
  };
  constexpr std::integral_constant<int, kTextTaps> kText;
  constexpr std::integral_constant<int, kMaxTaps> kAll;
  with_width<T>(rows_are_wide<T>(shape.C, {x, w, y}), [&](auto width) {
    if (shape.from != nullptr)
      start(kAll, width, std::true_type());
    else if (shape.count <= kTextTaps && shape.width == 0)
      start(kText, width, std::false_type());
    else
      start(kAll, width, std::false_type());
  });
}

}  // namespace

template <typename T>
void convolution(Context& ctx, const ConvolutionShape& shape, const T* x, const T* w, T* y) {
  convolve<Of::forward>(ctx, shape, x, w, y);
}

template <typename T>
void convolution_backward(Context& ctx, const ConvolutionShape& shape, const T* x, const T* w,
                          const T* dy, T* dx, T* dw) {
  using A = Accumulator<T>;
  convolve<Of::backward>(ctx, shape, dy, w, dx);
  const int64_t rows = shape.B * Stretches(shape).count, sums = shape.count * shape.C;
  const Workspace<A> parts(ctx, rows * sums);
  convolve<Of::weights>(ctx, shape, x, dy, parts.data());
  sum_columns_of(ctx, {1, rows, sums}, parts.data(),
                 [=] __device__(int64_t, int64_t i, const A* total) { dw[i] = T(total[0]); });
}

template <typename T>
void convolution_step(Context& ctx, const ConvolutionShape& shape, const T* x, const T* w,
                      const int32_t* positions, T* ring, T* y) {
  using A = Accumulator<T>;
  const int64_t R = shape.ring();
  for_each(ctx, shape.B * shape.C, [=] __device__(int64_t i) {
    const int64_t c = i % shape.C, n = positions[i / shape.C];
    T* const rows = ring + i / shape.C * R * shape.C + c;
    rows[n % R * shape.C] = x[i];
    A sum = 0;
    for (int t = 0; t < shape.count; ++t)
      if (shape.reads(t, n))
        sum += A(w[t * shape.C + c]) * A(rows[(n - shape.offset[t]) % R * shape.C]);
    y[i] = T(sum);
  });
}

LINEA_KERNEL_TABLE(ConvolutionKernels, .convolution = convolution<T>,
                   .convolution_backward = convolution_backward<T>,
                   .convolution_step = convolution_step<T>)

}  // namespace linea::cuda
