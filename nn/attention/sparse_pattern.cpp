#include "nn/attention/sparse_pattern.h"

#include <algorithm>
#include <numeric>

#include "base/random.h"

namespace linea {
namespace {

using Kind = PatternAtom::Kind;

bool overlap(KeyRange a, KeyRange b) { return a.first < b.end && b.first < a.end; }

// Atoms of which i sees few keys that are near each other have an order of positions in which they are:
// by this group, then by position.
bool has_order(const PatternAtom& atom) {
  return (atom.kind == Kind::strided && atom.n[0] > 1) ||
         (atom.kind == Kind::dilated && atom.n[1] > 1) || atom.kind == Kind::column ||
         atom.kind == Kind::block2d;
}
// An atom of which all queries see the same few keys: these, without the others.
bool has_own_keys(const PatternAtom& atom) {
  return atom.kind == Kind::fixed && atom.n[1] < atom.n[0];
}
bool is_apart(const PatternAtom& atom) { return has_order(atom) || has_own_keys(atom); }
int64_t group_of(const KeyPattern& pattern, const PatternAtom& atom, int64_t i) {
  switch (atom.kind) {
    case Kind::strided:
      return i % atom.n[0];
    case Kind::dilated:
      return i % atom.n[1];
    case Kind::column:
      return pattern.column_of(i);
    default: {
      const int64_t columns = (pattern.sizes().image_width + atom.n[1] - 1) / atom.n[1];
      return pattern.row_of(i) / atom.n[0] * columns + pattern.column_of(i) / atom.n[1];
    }
  }
}

}  // namespace

PatternView::PatternView(const KeyPattern& pattern, int64_t keys, bool causal, int64_t head)
    : pattern_(pattern), keys_(keys), head_(head), causal_(causal) {}

// r of the blocks before that of i, or not causal of all others (Floyd's sampling without replacement).
const std::vector<int32_t>& PatternView::blocks_for(int64_t i) const {
  const PatternSizes& sizes = pattern_.sizes();
  const int64_t block = i / sizes.block;
  if (static_cast<int64_t>(random_.size()) <= block) random_.resize(static_cast<size_t>(block + 1));
  std::vector<int32_t>& chosen = random_[static_cast<size_t>(block)];
  const int64_t existing = (keys_ + sizes.block - 1) / sizes.block;  // without its own
  const int64_t others = causal_ ? block : existing - (block < existing ? 1 : 0);
  if (!chosen.empty() || others <= 0) return chosen;
  int64_t r = 0;
  for (const PatternAtom& atom : pattern_.atoms())
    if (atom.kind == Kind::random) r = std::max(r, atom.n[0]);
  const RandomStream stream{sizes.seed, Purpose::pattern,
                            static_cast<uint32_t>(sizes.layer * sizes.heads + head_),
                            static_cast<uint64_t>(block)};
  for (int64_t j = std::max<int64_t>(others - r, 0); j < others; ++j) {
    const auto draw = static_cast<int32_t>(
        random_below(stream, static_cast<uint64_t>(j), static_cast<uint32_t>(j + 1)));
    const bool taken = std::find(chosen.begin(), chosen.end(), draw) != chosen.end();
    chosen.push_back(taken ? static_cast<int32_t>(j) : draw);
  }
  for (int32_t& other : chosen)
    if (other >= block) ++other;
  return chosen;
}

bool PatternView::sees(const PatternAtom& atom, int64_t i, int64_t j) const {
  const auto& [a, b, c, d] = atom.n;
  const int64_t apart = i < j ? j - i : i - j;
  switch (atom.kind) {
    case Kind::band:
      return apart < a;
    case Kind::dilated:
      return apart % b == 0 && apart < a * b;
    case Kind::block:
      return i / a - j / a <= b && j / a - i / a <= b;
    case Kind::global:
      return j < a || i < a;
    case Kind::last:
      return j >= keys_ - a || i >= keys_ - a;
    case Kind::random: {
      const std::vector<int32_t>& blocks = blocks_for(i);
      return std::find(blocks.begin(), blocks.end(), j / pattern_.sizes().block) != blocks.end();
    }
    case Kind::strided:
      return apart % a == 0;
    case Kind::fixed:
      return j % a >= a - b;
    case Kind::row:
      return pattern_.row_of(i) == pattern_.row_of(j);
    case Kind::column:
      return pattern_.column_of(i) == pattern_.column_of(j);
    case Kind::block2d:
      return pattern_.row_of(i) / a == pattern_.row_of(j) / a &&
             pattern_.column_of(i) / b == pattern_.column_of(j) / b;
    case Kind::local2d: {
      const int64_t row = pattern_.row_of(i) / a * a, column = pattern_.column_of(i) / b * b;
      const int64_t at_row = pattern_.row_of(j), at_column = pattern_.column_of(j);
      return at_row >= row - c && at_row < row + a + c && at_column >= column - d &&
             at_column < column + b + d;
    }
  }
  return false;
}

bool PatternView::sees(int64_t i, int64_t j) const {
  if (j >= keys_ || (causal_ && j > i)) return false;
  return i == j || std::any_of(pattern_.atoms().begin(), pattern_.atoms().end(),
                               [&](const PatternAtom& atom) { return sees(atom, i, j); });
}

// False only where no query of `rows` sees a key of `keys`, both as they are.
bool PatternView::may_see(const PatternAtom& atom, KeyRange rows, KeyRange keys) const {
  const int64_t a = atom.n[0], b = atom.n[1];
  const auto within = [&](int64_t distance) {
    return overlap({rows.first - distance, rows.end + distance}, keys);
  };
  switch (atom.kind) {
    case Kind::band:
      return within(a - 1);
    case Kind::dilated:
      return within(a * b - 1);
    case Kind::block:
      return within(a * (b + 1));
    case Kind::global:
      return rows.first < a || keys.first < a;
    case Kind::last:
      return rows.end > keys_ - a || keys.end > keys_ - a;
    case Kind::random: {
      const int64_t block = pattern_.sizes().block;
      for (int64_t i = rows.first; i < rows.end; i = (i / block + 1) * block)
        for (const int32_t chosen : blocks_for(i))
          if (overlap({chosen * block, (chosen + 1) * block}, keys)) return true;
      return false;
    }
    case Kind::row:
      return pattern_.row_of(rows.first) <= pattern_.row_of(keys.end - 1) &&
             pattern_.row_of(keys.first) <= pattern_.row_of(rows.end - 1);
    case Kind::local2d: {
      const int64_t c = atom.n[2];
      return pattern_.row_of(rows.first) / a * a - c <= pattern_.row_of(keys.end - 1) &&
             pattern_.row_of(keys.first) < (pattern_.row_of(rows.end - 1) / a + 1) * a + c;
    }
    default:
      return true;
  }
}

// What `atoms` see that `before` do not, and in the first part the query itself.
KeyTiles::Part PatternView::part(const std::vector<PatternAtom>& atoms,
                                 const std::vector<PatternAtom>& before, bool first,
                                 int64_t N) const {
  const auto any = [this](const std::vector<PatternAtom>& of, int64_t i, int64_t j) {
    return std::any_of(of.begin(), of.end(),
                       [&](const PatternAtom& atom) { return sees(atom, i, j); });
  };
  KeyTiles::Part part;
  part.sees = [=, this](int64_t i, const int32_t* keys, int64_t count) {
    uint64_t bits = 0;
    for (int64_t n = 0; n < count; ++n) {
      const int64_t j = keys[n];
      if (j < 0 || j >= keys_ || (causal_ && j > i)) continue;
      const bool seen = i == j ? first : any(atoms, i, j) && !any(before, i, j);
      bits |= static_cast<uint64_t>(seen) << n;
    }
    return bits;
  };
  if (!atoms.empty() && has_own_keys(atoms.front())) {
    for (int32_t j = 0; j < N; ++j)
      if (sees(atoms.front(), j, j)) part.keys.push_back(j);
    if (part.keys.empty()) part.keys.push_back(-1);
    part.may_see = [=, this, order = part.keys](KeyRange rows, KeyRange keys) {
      return !causal_ || order[static_cast<size_t>(keys.first)] < rows.end;
    };
    return part;
  }
  if (atoms.empty() || !has_order(atoms.front())) {
    part.may_see = [=, this](KeyRange rows, KeyRange keys) {
      if (causal_ && keys.first >= rows.end) return false;
      return overlap(rows, keys) ||
             std::any_of(atoms.begin(), atoms.end(),
                         [&](const PatternAtom& atom) { return may_see(atom, rows, keys); });
    };
    return part;
  }
  const auto group = [=, this](int64_t i) { return group_of(pattern_, atoms.front(), i); };
  std::vector<int32_t> order(static_cast<size_t>(N));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int32_t i, int32_t j) { return group(i) < group(j); });
  part.queries = part.keys = order;
  part.may_see = [=, this](KeyRange rows, KeyRange keys) {
    if (causal_ && keys.first >= rows.end) return false;
    const auto at = [&](int64_t n) { return group(order[static_cast<size_t>(n)]); };
    return at(rows.first) <= at(keys.end - 1) && at(keys.first) <= at(rows.end - 1);
  };
  return part;
}

// Atoms of positions as they are make the first part, each of the others one of its own; the first part
// has the query itself, which all atoms with an order see anyway.
KeyTilesPtr PatternView::tiles(int64_t N) const {
  const std::vector<PatternAtom>& given = pattern_.atoms();
  std::vector<std::vector<PatternAtom>> parts(1);
  for (const PatternAtom& atom : given)
    if (!is_apart(atom)) parts.front().push_back(atom);
  if (parts.front().empty() && std::all_of(given.begin(), given.end(), has_order)) parts.clear();
  for (const PatternAtom& atom : given)
    if (is_apart(atom)) parts.push_back({atom});
  std::vector<KeyTiles::Part> all;
  std::vector<PatternAtom> before;
  for (const std::vector<PatternAtom>& atoms : parts) {
    all.push_back(part(atoms, before, all.empty(), N));
    before.insert(before.end(), atoms.begin(), atoms.end());
  }
  return std::make_shared<const KeyTiles>(N, N, all);
}

KeyPattern::KeyPattern(std::vector<PatternAtom> atoms, const PatternSizes& sizes)
    : atoms_(std::move(atoms)), sizes_(sizes) {
  std::sort(atoms_.begin(), atoms_.end());
  atoms_.erase(std::unique(atoms_.begin(), atoms_.end()), atoms_.end());
}

bool KeyPattern::has(Kind kind) const {
  return std::any_of(atoms_.begin(), atoms_.end(),
                     [kind](const PatternAtom& atom) { return atom.kind == kind; });
}

bool KeyPattern::needs_length(bool causal) const {
  return has(Kind::last) || (has(Kind::random) && !causal);
}

namespace {

// Whether an atom sees no position from `now` on; and how many positions it may still see.
bool has_passed(const KeyPattern& pattern, const PatternAtom& atom, int64_t position, int64_t now) {
  const auto& [a, b, c, d] = atom.n;
  switch (atom.kind) {
    case Kind::band:
      return now - position >= a;
    case Kind::dilated:
      return now - position >= a * b;
    case Kind::block:
      return now / a - position / a > b;
    case Kind::global:
      return position >= a;
    case Kind::fixed:
      return position % a < a - b;
    case Kind::row:
      return pattern.row_of(now) > pattern.row_of(position);
    case Kind::block2d:
      return pattern.row_of(now) / a > pattern.row_of(position) / a;
    case Kind::local2d:
      return pattern.row_of(now) / a * a - c > pattern.row_of(position);
    default:
      return false;
  }
}
int64_t slots_of(const KeyPattern& pattern, const PatternAtom& atom) {
  const auto& [a, b, c, d] = atom.n;
  const int64_t row = pattern.sizes().image_width * pattern.sizes().image_channels;
  switch (atom.kind) {
    case Kind::band:
      return a;
    case Kind::dilated:
      return a * b;
    case Kind::block:
      return a * (b + 1);
    case Kind::global:
      return a;
    case Kind::row:
      return row;
    case Kind::block2d:
      return a * row;
    case Kind::local2d:
      return (a + c) * row;
    default:
      return 1;  // the query itself
  }
}

}  // namespace

bool KeyPattern::has_passed(int64_t position, int64_t now) const {
  return std::all_of(atoms_.begin(), atoms_.end(), [&](const PatternAtom& atom) {
    return linea::has_passed(*this, atom, position, now);
  });
}

int64_t KeyPattern::slots() const {
  int64_t sum = 1;
  for (const PatternAtom& atom : atoms_) sum += slots_of(*this, atom);
  return sum;
}

double KeyPattern::growth() const {
  double growth = 0;
  for (const PatternAtom& atom : atoms_) {
    if (atom.kind == Kind::fixed)
      growth += 2.0 * static_cast<double>(atom.n[1]) / static_cast<double>(atom.n[0]);
    const bool all =
        atom.kind == Kind::random || atom.kind == Kind::strided || atom.kind == Kind::column;
    if (all) growth = 2;
  }
  return std::min(growth, 2.0);
}

}  // namespace linea
