#include "nn/blank.h"

#include <algorithm>

#include "nn/causal_convolution.h"
#include "nn/model.h"

namespace linea {
namespace {

Tensor tensor_of(const std::vector<int32_t>& values) {
  return Tensor::from(values, {static_cast<int64_t>(values.size())});
}

// Row m of a sequence is position positions[m]; with offset t it reads the row of position n - o_t, and is
// read by the row of position n + o_t.
ConvolutionRows convolution_rows(const std::vector<std::vector<int32_t>>& positions, int64_t M,
                                 const ConvolutionShape& offsets, int64_t N) {
  const auto B = static_cast<int64_t>(positions.size());
  std::vector<int32_t> from(static_cast<size_t>(B * M * offsets.count), -1), to = from;
  for (int64_t b = 0; b < B; ++b) {
    std::vector<int32_t> row_of(static_cast<size_t>(N), -1);
    int32_t row = 0;
    for (const int32_t n : positions[static_cast<size_t>(b)]) {
      row_of[static_cast<size_t>(n)] = row;
      for (int t = 0; t < offsets.count; ++t) {
        const int32_t source =
            offsets.reads(t, n) ? row_of[static_cast<size_t>(n - offsets.offset[t])] : -1;
        if (source < 0) continue;
        from[static_cast<size_t>((b * M + row) * offsets.count + t)] = source;
        to[static_cast<size_t>((b * M + source) * offsets.count + t)] = row;
      }
      ++row;
    }
  }
  const Shape shape{B, M, offsets.count};
  return {Tensor::from(from, shape), Tensor::from(to, shape)};
}

}  // namespace

Neighborhood::Neighborhood(const ModelConfig& config)
    : length_(config.length), levels_(config.vocab_size) {
  const int64_t C = config.image_channels, W = config.image_width;
  const auto pixels = [C](int64_t first, int64_t last) {
    return std::pair{std::max<int64_t>(1, C * first - C + 1), C * last + C - 1};
  };
  distances_ = {pixels(1, 2), pixels(W - 2, W + 2), pixels(2 * W - 2, 2 * W + 2)};
}

void Neighborhood::add(int64_t index, int32_t level, std::vector<bool>& computed) const {
  if (level <= 0 || level >= levels_) return;
  for (const auto& [first, last] : distances_)
    for (int64_t n = index + first; n <= std::min(index + last, length_ - 1); ++n)
      computed[static_cast<size_t>(n)] = true;
}

std::vector<bool> Neighborhood::empty() const {
  std::vector<bool> computed(static_cast<size_t>(length_), false);
  computed[0] = true;
  return computed;
}

PackedPositions::PackedPositions(const Tensor& ids, const ModelConfig& config) {
  const int64_t B = ids.size(0), N = ids.size(1);
  const std::vector<int32_t> tokens = ids.to_vector<int32_t>();
  const Neighborhood neighborhood(config);
  std::vector<std::vector<int32_t>> positions(static_cast<size_t>(B));
  std::vector<int32_t> counts, rows, blanks, befores, orders;
  for (int64_t b = 0; b < B; ++b) {
    std::vector<bool> not_blank = neighborhood.empty();
    std::vector<int32_t>& own = positions[static_cast<size_t>(b)];
    for (int64_t n = 0; n < N; ++n) {
      if (n > 0) neighborhood.add(n - 1, tokens[static_cast<size_t>(b * N + n)], not_blank);
      if (not_blank[static_cast<size_t>(n)]) own.push_back(static_cast<int32_t>(n));
    }
    counts.push_back(static_cast<int32_t>(own.size()));
  }
  const int64_t M = *std::max_element(counts.begin(), counts.end());
  for (int64_t b = 0; b < B; ++b) {
    std::vector<int32_t> own = positions[static_cast<size_t>(b)];
    auto row = static_cast<int32_t>(b * M) - 1;  // of the last position so far that is not blank
    for (int64_t n = 0, m = 0; n < N; ++n) {
      if (m < std::ssize(own) && own[static_cast<size_t>(m)] == n) {
        ++m;
        orders.push_back(++row);
      } else {
        orders.push_back(static_cast<int32_t>(B * M + std::ssize(blanks)));
        blanks.push_back(static_cast<int32_t>(b * N + n));
        befores.push_back(row);
      }
    }
    own.resize(static_cast<size_t>(M));
    for (const int32_t n : own) rows.push_back(static_cast<int32_t>(b * N) + n);
  }
  if (blanks.empty()) blanks = befores = {0};
  computed = Tensor::from(rows, {B, M});
  lengths = tensor_of(counts);
  blank = tensor_of(blanks);
  before = tensor_of(befores);
  order = Tensor::from(orders, {B, N});
  if (config.layer_convolution != "none")
    convolution = convolution_rows(positions, M, convolution_offsets(config), N);
}

}  // namespace linea
