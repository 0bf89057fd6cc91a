// One launch for many arrays, such as parameters.
#pragma once

#include "cuda/grid.h"
#include "tensor/element.h"

namespace linea::cuda {

// Elements of an array per block of threads.
inline constexpr int64_t kPieceBlock = 4096;

LINEA_HOST_DEVICE inline int64_t piece_blocks(int64_t n) {
  return (n + kPieceBlock - 1) / kPieceBlock;
}

// Arrays of `n` elements each, passed as kernel arguments (limited to 4 KB) and split into
// consecutive blocks.
template <typename Piece>
struct Several {
  static constexpr size_t kMax = 3600 / (sizeof(Piece) + sizeof(int64_t));
  Piece of[kMax];
  int64_t first_block[kMax + 1];

  // Takes as many of `pieces` as fit; returns their number.
  size_t take(const Piece* pieces, size_t count) {
    const size_t taken = count < kMax ? count : kMax;
    first_block[0] = 0;
    for (size_t p = 0; p < taken; ++p) {
      of[p] = pieces[p];
      first_block[p + 1] = first_block[p] + piece_blocks(pieces[p].n);
    }
    return taken;
  }
};

// Calls body(piece, first element, end element, block) in one block of threads for each block of
// each array.
template <typename Piece, typename Body>
void each_piece(const Context& ctx, const Piece* pieces, size_t count, const Body& body) {
  int64_t before = 0;
  while (count > 0) {
    Several<Piece> several;
    const size_t taken = several.take(pieces, count);
    const int64_t blocks = several.first_block[taken];
    for_each_row(ctx, blocks, [=] __device__(int64_t block) {
      int p = 0;
      while (several.first_block[p + 1] <= block) ++p;
      const Piece& of = several.of[p];
      const int64_t first = (block - several.first_block[p]) * kPieceBlock;
      body(of, first, of.n < first + kPieceBlock ? of.n : first + kPieceBlock, before + block);
    });
    before += blocks;
    pieces += taken;
    count -= taken;
  }
}

}  // namespace linea::cuda
