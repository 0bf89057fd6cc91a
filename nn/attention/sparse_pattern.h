// Patterns of keys for softmax attention, as `--pattern` writes them: alternatives divided by `/`, each
// a union of atoms joined by `+`. With r(i) and c(i) the row and the column of position i in an image
// (3 color tokens share both), b the setting `block`, and L keys, query i sees key j where
//
//   band:w          |i - j| < w
//   dilated:WxD     (i - j) mod D = 0 and |i - j| < W D
//   block:b         i and j in one block of b; block:bxp: or j up to p blocks before
//   global:g        j < g or i < g
//   last:g          j >= L - g or i >= L - g; never causal
//   random:r        j in one of r blocks of b positions, drawn for the block of i
//   strided:l       (i - j) mod l = 0
//   fixed:lxc       j mod l >= l - c
//   row, column     r(i) = r(j), c(i) = c(j)
//   block2d:AxB     i and j in one tile of A rows and B columns
//   local2d:AxBxHxW j in the tile of i, up to H rows above it, and up to W columns at each side of these
//
// Not causal: block:bxp also p blocks after, local2d also H rows below, global:g all that is said; causal:
// those of these keys with j <= i. Every query sees itself.
// Sources: docs/mechanisms.md.
#pragma once

#include <array>
#include <string>
#include <tuple>
#include <vector>

#include "autograd/sparse_attention.h"

namespace linea {

// What patterns are about.
struct PatternSizes {
  int64_t block = 64;
  int64_t image_width = 0, image_channels = 0;  // 0: no image
  // Random blocks are a function of (seed, layer, head, block of the query).
  uint64_t seed = 1;
  int64_t layer = 0, heads = 1;
};

struct PatternAtom {
  enum class Kind : uint8_t {
    band,
    dilated,
    block,
    global,
    last,
    random,
    strided,
    fixed,
    row,
    column,
    block2d,
    local2d
  };
  Kind kind;
  std::array<int64_t, 4> n;  // its numbers, in order
  bool operator==(const PatternAtom&) const = default;
  bool operator<(const PatternAtom& other) const {
    return std::tie(kind, n) < std::tie(other.kind, other.n);
  }
};

class KeyPattern;

// A pattern of `keys` positions, for one head.
class PatternView {
 public:
  PatternView(const KeyPattern& pattern, int64_t keys, bool causal, int64_t head);
  bool sees(int64_t i, int64_t j) const;
  // Its tiles for N positions, of which the first `keys` exist.
  KeyTilesPtr tiles(int64_t N) const;

 private:
  bool sees(const PatternAtom& atom, int64_t i, int64_t j) const;
  bool may_see(const PatternAtom& atom, KeyRange rows, KeyRange keys) const;
  KeyTiles::Part part(const std::vector<PatternAtom>& atoms, const std::vector<PatternAtom>& before,
                      bool first, int64_t N) const;
  const std::vector<int32_t>& blocks_for(int64_t i) const;

  const KeyPattern& pattern_;
  int64_t keys_, head_;
  bool causal_;
  mutable std::vector<std::vector<int32_t>> random_;  // blocks, of each block of queries
};

// One alternative: atoms in an order of their own, each once.
class KeyPattern {
 public:
  KeyPattern(std::vector<PatternAtom> atoms, const PatternSizes& sizes);

  bool has(PatternAtom::Kind kind) const;
  // Whether the keys depend on L, or on the head.
  bool needs_length(bool causal) const;
  bool needs_head() const { return has(PatternAtom::Kind::random); }
  // Causal: whether no query from `now` on sees the position; the positions of which that is not so,
  // at most, and the keys a position that are added to them.
  bool has_passed(int64_t position, int64_t now) const;
  int64_t slots() const;
  double growth() const;

  const std::vector<PatternAtom>& atoms() const { return atoms_; }
  const PatternSizes& sizes() const { return sizes_; }
  int64_t row_of(int64_t i) const { return i / (sizes_.image_width * sizes_.image_channels); }
  int64_t column_of(int64_t i) const { return i / sizes_.image_channels % sizes_.image_width; }

 private:
  std::vector<PatternAtom> atoms_;
  PatternSizes sizes_;
};

// The alternatives of an expression. Error: ErrorKind::usage naming the place in it: an unknown atom, other
// numbers than it takes, a number below 1, an atom of images without images.
std::vector<KeyPattern> parse_pattern(const std::string& expression, const PatternSizes& sizes);

}  // namespace linea
