// The threads of a product share a packed block of B. Each packs the rows of A that it takes.
// Packing and products are handed out in more pieces than threads: a thread that loses its core for
// a while does not keep the others waiting for half of the work.
#include "tensor/cpu/packed/gemm.h"

#include "base/error.h"
#include "tensor/cpu/parallel.h"
#include "tensor/packed_weight.h"

namespace linea::cpu {
namespace {

constexpr int64_t kMinWork = 1 << 19;  // multiplications of a thread
constexpr int64_t kPieces = 4;         // of a thread, at least

int64_t pieces_of(int64_t length, int64_t piece) { return (length + piece - 1) / piece; }
int64_t padded(int64_t length, int64_t unit) { return pieces_of(length, unit) * unit; }

}  // namespace

void packed_gemm(const Context& ctx, const PackedKernel& kernel, const GemmShape& shape,
                 const float* a, const float* b, float* c, const PackedLayer& layer) {
  const int64_t rows = shape.rows, cols = shape.cols, inner = shape.inner;
  const int64_t lda = shape.row_a(), ldc = shape.row_c();
  const Operand<float> from_a = shape.transpose_a ? transposed(a, lda) : plain(a, lda),
                       columns_of_b = shape.transpose_b ? plain(b, inner) : transposed(b, cols);
  const bool turned_a = !layer.rows_of_a && from_a.column != 1;

  const int64_t useful = std::max<int64_t>(1, rows * cols * inner / kMinWork);
  const int threads = in_region() ? 1 : static_cast<int>(std::min<int64_t>(ctx.threads, useful));
  const int64_t strips = pieces_of(rows, kStripRows);
  const int64_t wanted = threads == 1 ? 1 : pieces_of(kPieces * threads, strips);
  const int64_t width = padded(pieces_of(cols, wanted), kStripColumns);
  const int64_t chunks = pieces_of(cols, width), panels = pieces_of(cols, kStripColumns);

  // Words of a packed vector.
  const auto words = [&](int64_t terms) { return pieces_of(terms, kernel.terms) * kPairs; };
  const int64_t depth = words(std::min(inner, kernel.block));
  const int64_t steps = std::max<int64_t>(1, pieces_of(inner, kernel.block));
  const int64_t size_b = panels * kStripColumns * depth,
                size_a = padded(kStripRows, kPairs) * depth;
  PackedWeight* const saved = shape.packed;
  const bool is_packed = saved != nullptr && saved->words;
  require(!is_packed || (saved->weight == b && saved->kernel == &kernel &&
                         saved->transposed == shape.transpose_b),
          "matmul: a PackedWeight holds one weight in one form; give each its own");
  const Workspace<uint32_t> packed_b(ctx,
                                     saved != nullptr ? 0 : size_b * std::min<int64_t>(steps, 2)),
      packed_a(ctx, size_a * threads);
  const int64_t size_rows = layer.rows_of_a ? kStripRows * (inner + 2) : 0;
  const Workspace<float> layer_rows(ctx, size_rows * threads);
  const auto pack_a = [&](int64_t row, int64_t count, int64_t term, int64_t terms, uint32_t* to) {
    if (!layer.rows_of_a) return kernel.pack(from_a.at(row, term), count, terms, false, to);
    float* const own = layer_rows.data() + size_rows * omp_get_thread_num();
    layer.rows_of_a(row, count, own);
    kernel.pack({own + term, inner}, count, terms, false, to);
  };
  if (saved != nullptr && !is_packed) {
    saved->words.emplace(ctx, size_b * steps);
    saved->weight = b;
    saved->kernel = &kernel;
    saved->transposed = shape.transpose_b;
  }
  std::array<Shares, 2> shares = {Shares(strips * chunks, threads),
                                  Shares(strips * chunks, threads)};
#pragma omp parallel num_threads(threads)
  {
    const int64_t thread = omp_get_thread_num();
    if (kernel.begin != nullptr) kernel.begin();
    uint32_t* const own = packed_a.data() + size_a * thread;
    for (int64_t step = 0; step < steps; ++step) {
      const int64_t term = step * kernel.block, terms = std::min(kernel.block, inner - term);
      const int64_t column = words(terms), blocks = column / kPairs;
      // A thread that is ahead packs the next block while others still read this one.
      uint32_t* const shared = saved != nullptr ? saved->words->data() + size_b * step
                                                : packed_b.data() + size_b * (step % 2);
#pragma omp for schedule(dynamic, 1)
      for (int64_t panel = 0; panel < (is_packed ? 0 : panels); ++panel) {
        const int64_t first = panel * kStripColumns;
        kernel.pack(columns_of_b.at(first, term), std::min(kStripColumns, cols - first), terms,
                    true, shared + first * column);
      }  // all sums of the block before are complete
      // Every thread has left the other shares before the barrier above, and takes of them after the next.
#pragma omp single nowait
      shares[(step + 1) % 2].restart();
      int64_t packed = -1;
      shares[step % 2].each(thread, [&](int64_t piece) {
        const int64_t strip = piece / chunks, row = strip * kStripRows;
        const int64_t col = piece % chunks * width, height = std::min(kStripRows, rows - row);
        if (strip != packed) pack_a(row, height, term, terms, own);
        packed = strip;
        const int64_t wide = std::min(width, cols - col);
        kernel.multiply({own, shared + col * column, turned_a, blocks, 0, blocks * kPairs, height,
                         wide, c + row * ldc + col, ldc, step > 0 || shape.beta != 0});
        if (layer.finish && step == steps - 1) layer.finish(row, height, col, wide);
      });
    }
    if (kernel.end != nullptr) kernel.end();
  }
}

}  // namespace linea::cpu
