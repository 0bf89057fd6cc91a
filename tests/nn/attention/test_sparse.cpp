// Patterns of keys: the sets that they mean, written out a second time; their limits; and what the
// conformance suite does not ask.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "nn/attention/sparse_pattern.h"
#include "nn/verify/conformance_tools.h"
#include "tests/nn/attention_options.h"
#include "tests/nn/same_bits.h"

namespace linea {
namespace {

using namespace conformance;

std::unique_ptr<Attention> sparse(const std::string& pattern, const Sizes& sizes, DType dtype,
                                  int64_t block = 16, uint64_t seed = 1) {
  AttentionOptions options =
      options_of("sparse", sizes.heads, sizes.key_size, sizes.value_size, dtype);
  options.settings["pattern"] = pattern;
  options.settings["block"] = block;
  options.seed = seed;
  options.image_width = 10;
  options.image_channels = 3;
  return make_attention(options);
}

std::unique_ptr<Attention> softmax(const Sizes& sizes, DType dtype) {
  return make_attention(
      options_of("softmax", sizes.heads, sizes.key_size, sizes.value_size, dtype));
}

// The keys of a pattern, from its definition: i, j, number of keys L.
using Set = std::function<bool(int64_t i, int64_t j, int64_t L, bool causal)>;
struct Definition {
  std::string pattern;
  Set set;
};

std::vector<Definition> definitions() {
  const auto row = [](int64_t i) { return i / 30; };
  const auto column = [](int64_t i) { return i / 3 % 10; };
  return {
      {"band:7", [](int64_t i, int64_t j, int64_t, bool) { return std::abs(i - j) <= 6; }},
      {"dilated:4x5",
       [](int64_t i, int64_t j, int64_t, bool) {
         for (int64_t step = -3; step <= 3; ++step)
           if (i + 5 * step == j) return true;
         return false;
       }},
      {"block:9", [](int64_t i, int64_t j, int64_t, bool) { return i / 9 == j / 9; }},
      {"block:9x2",
       [](int64_t i, int64_t j, int64_t, bool) { return std::abs(i / 9 - j / 9) <= 2; }},
      {"global:5", [](int64_t i, int64_t j, int64_t, bool) { return i < 5 || j < 5; }},
      {"strided:6", [](int64_t i, int64_t j, int64_t, bool) { return i % 6 == j % 6; }},
      {"fixed:8x3",
       [](int64_t, int64_t j, int64_t, bool) { return j % 8 == 5 || j % 8 == 6 || j % 8 == 7; }},
      {"row", [row](int64_t i, int64_t j, int64_t, bool) { return row(i) == row(j); }},
      {"column", [column](int64_t i, int64_t j, int64_t, bool) { return column(i) == column(j); }},
      {"block2d:3x4",
       [row, column](int64_t i, int64_t j, int64_t, bool) {
         return row(i) / 3 == row(j) / 3 && column(i) / 4 == column(j) / 4;
       }},
      {"local2d:2x4x1x3",
       [row, column](int64_t i, int64_t j, int64_t, bool) {
         const int64_t top = row(i) - row(i) % 2, left = column(i) - column(i) % 4;
         return row(j) >= top - 1 && row(j) <= top + 1 + 1 && column(j) >= left - 3 &&
                column(j) <= left + 3 + 3;
       }},
      {"band:3+strided:6+column", [column](int64_t i, int64_t j, int64_t, bool) {
         return std::abs(i - j) < 3 || i % 6 == j % 6 || column(i) == column(j);
       }}};
}

TEST(SparsePattern, IsTheSetThatItsDefinitionSays) {
  const PatternSizes sizes{.block = 16, .image_width = 10, .image_channels = 3};
  std::vector<Definition> all = definitions();
  all.push_back(
      {"last:4", [](int64_t i, int64_t j, int64_t L, bool) { return i >= L - 4 || j >= L - 4; }});
  for (const auto& [text, set] : all)
    for (const bool causal : {true, false}) {
      if (causal && text == "last:4") continue;
      const KeyPattern pattern = parse_pattern(text, sizes).at(0);
      for (const int64_t N : {1, 64, 131, 200}) {
        const PatternView view(pattern, N, causal, 0);
        int64_t pairs = 0, wrong = 0;
        for (int64_t i = 0; i < N; ++i)
          for (int64_t j = 0; j < N; ++j) {
            const bool expected = (i == j || set(i, j, N, causal)) && (!causal || j <= i);
            pairs += expected ? 1 : 0;
            wrong += view.sees(i, j) != expected ? 1 : 0;
          }
        EXPECT_EQ(wrong, 0) << text << " of " << N << ", causal " << causal;
        EXPECT_EQ(view.tiles(N)->pairs(), pairs) << text << " of " << N << ", causal " << causal;
      }
    }
}

// Rows and columns of a 4 x 4 image, of gray levels and of three color tokens, by hand.
TEST(SparsePattern, RowsAndColumnsOfSmallImages) {
  const KeyPattern gray_row = parse_pattern("row", {.image_width = 4, .image_channels = 1}).at(0),
                   color_column =
                       parse_pattern("column", {.image_width = 4, .image_channels = 3}).at(0);
  const PatternView rows(gray_row, 16, false, 0), columns(color_column, 48, true, 0);
  for (int64_t j = 0; j < 16; ++j) EXPECT_EQ(rows.sees(6, j), j >= 4 && j <= 7) << j;
  for (int64_t j = 0; j < 48; ++j)  // position 31: third row, third column, second color
    EXPECT_EQ(columns.sees(31, j),
              j == 6 || j == 7 || j == 8 || j == 18 || j == 19 || j == 20 || j == 30 || j == 31)
        << j;
}

TEST(SparsePattern, RandomBlocksDependOnSeedAndHeadAndNotOnTheLength) {
  const auto set = [](uint64_t seed, int64_t head, int64_t N, bool causal) {
    const KeyPattern pattern =
        parse_pattern("random:2", {.block = 8, .seed = seed, .heads = 2}).at(0);
    const PatternView view(pattern, N, causal, head);
    std::vector<bool> seen;
    for (int64_t i = 0; i < 96; ++i)
      for (int64_t j = 0; j < 96; ++j) seen.push_back(view.sees(i, j));
    return seen;
  };
  EXPECT_NE(set(1, 0, 96, true), set(2, 0, 96, true));
  EXPECT_NE(set(1, 0, 96, true), set(1, 1, 96, true));
  EXPECT_EQ(set(1, 0, 96, true), set(1, 0, 200, true));
  // Two distinct blocks, not its own, for each block of queries that has them before it.
  const std::vector<bool> causal = set(1, 0, 96, true), both = set(1, 0, 96, false);
  for (int64_t block = 0; block < 12; ++block) {
    const auto count = [&](const std::vector<bool>& seen) {
      int64_t keys = 0;
      for (int64_t j = 0; j < 96; ++j) keys += seen[static_cast<size_t>((block * 8 + 7) * 96 + j)];
      return keys;
    };
    EXPECT_EQ(count(causal), 1 + 8 * std::min<int64_t>(block, 2)) << block;
    EXPECT_EQ(count(both), 1 + 8 * 2) << block;
  }
}

TEST(SparsePattern, RefusesWhatIsNoPatternAndNamesThePlace) {
  const PatternSizes no_image{};
  const std::pair<const char*, const char*> wrong[] = {
      {"", "character 1"},
      {"bond:7", "character 1: there is no atom 'bond'"},
      {"band", "takes 1 number"},
      {"band:0", "character 6"},
      {"band:4x4", "takes 1"},
      {"band:4+", "character 8"},
      {"band:4/", "character 8"},
      {"band:4,row", "character 7"},
      {"band:-3", "character 6"},
      {"band:99999999999999999999", "character 6"},
      {"fixed:4x5", "more than 4"},
      {"band:4+row", "character 8: row needs an image"},
      {"dilated:4", "takes 2"},
      {"block:4x1x1", "takes 1 or 2"},
      {"band:4 +global:2", "character 7"}};
  for (const auto& [text, reason] : wrong) try {
      parse_pattern(text, no_image);
      FAIL() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::usage);
      EXPECT_NE(std::string(error.what()).find(reason), std::string::npos) << error.what();
    }
}

TEST(Sparse, AliasesOfImagesNameThemselvesWhereThereIsNone) {
  for (const std::string name : {"axial", "image-local-2d"}) try {
      make_attention({.name = name});
      FAIL() << name;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::usage);
      EXPECT_EQ(std::string(error.what()).find("`attention` " + name + " needs an image"), 0)
          << error.what();
    }
}

TEST(Sparse, AtItsLimitIsSoftmax) {
  const Tensor valid = Tensor::from(std::vector<int32_t>{150, 71}, {2});
  const Sizes sizes{2, 2, 150, 5, 7};
  const Inputs x = draw(sizes, DType::f64);
  for (const bool causal : {true, false})
    for (const Tensor& keys : {Tensor(), valid}) {
      const AttentionMask mask{causal, keys};
      const Outcome expected = run(*softmax(sizes, DType::f64), &Attention::forward, x, mask);
      for (const char* pattern :
           {"band:150", "block:150", "dilated:150x1", "global:150", "block:16+random:10",
            "strided:1", "fixed:4x4", "block2d:5x10", "row+local2d:5x10x5x10"}) {
        const Outcome found =
            run(*sparse(pattern, sizes, DType::f64), &Attention::forward, x, mask);
        EXPECT_LE(relative_error(found.y, expected.y), 1e-12) << pattern;
        EXPECT_LE(gradient_error(found, expected), 1e-12) << pattern;
      }
      // One key less is seen.
      EXPECT_GT(
          relative_error(run(*sparse("band:60", sizes, DType::f64), &Attention::forward, x, mask).y,
                         expected.y),
          1e-6);
    }
}

TEST(Sparse, AUnionCountsAKeyOnce) {
  const Sizes sizes{1, 2, 200, 5, 7};
  const Inputs x = draw(sizes, DType::f32);
  for (const bool causal : {true, false}) {
    const auto bits = [&](const std::string& pattern) {
      return run(*sparse(pattern, sizes, DType::f32), &Attention::forward, x, {causal, {}});
    };
    const std::string atoms = "block:24+strided:7+column";
    expect_same_bits(bits(atoms), bits(atoms + "+" + atoms));
    expect_same_bits(bits(atoms), bits("column+strided:7+block:24"));
    expect_same_bits(bits("band:9"), bits("band:9+band:5+dilated:3x1"));
  }
}

TEST(Sparse, AWindowOfOneCopiesValues) {
  const Sizes sizes{2, 3, 150, 5, 7};
  const Inputs x = draw(sizes, DType::f32);
  const Outcome found = run(*sparse("band:1", sizes, DType::f32), &Attention::forward, x, {});
  EXPECT_EQ(different_bits(found.y, x.v, anywhere), 0);
}

TEST(Sparse, AlternativesAreTakenInTurnByLayersOrHeads) {
  const Sizes sizes{1, 2, 90, 5, 7};
  const Inputs x = draw(sizes, DType::f64);
  const auto of = [&](const std::string& pattern, const std::string& by, int64_t turn) {
    AttentionOptions options = options_of("sparse", 2, 5, 7, DType::f64);
    options.settings["pattern"] = pattern;
    options.settings["pattern_by"] = by;
    options.turn = turn;
    return run(*make_attention(options), &Attention::forward, x, {}).y;
  };
  const Tensor band = of("band:9", "layer", 0), strided = of("strided:9", "layer", 0);
  EXPECT_EQ(relative_error(of("band:9/strided:9", "layer", 0), band), 0);
  EXPECT_EQ(relative_error(of("band:9/strided:9", "layer", 1), strided), 0);
  EXPECT_EQ(relative_error(of("band:9/strided:9", "layer", 2), band), 0);
  const Tensor heads = of("band:9/strided:9", "head", 5);
  const auto head = [](const Tensor& y, size_t h) { return pick(y, {0}, {h}, 90); };
  EXPECT_EQ(relative_error(head(heads, 0), head(band, 0)), 0);
  EXPECT_EQ(relative_error(head(heads, 1), head(strided, 1)), 0);
}

TEST(Sparse, WithoutACausalFormRefusesACausalMask) {
  for (const auto& [name, reason] : {std::pair("star", "relay"), {"etc", "global positions"}}) {
    const AttentionOptions options = options_of(name, 1, 4, 4, DType::f32);
    const std::unique_ptr<Attention> attention = make_attention(options);
    EXPECT_NE(attention->traits().not_causal.find(reason), std::string::npos);
    const Inputs x = draw({1, 1, 5, 4, 4}, DType::f32);
    EXPECT_THROW(run(*attention, &Attention::forward, x, {true, {}}), Error);
    EXPECT_THROW(attention->start(1, DType::f32), Error);
    run(*attention, &Attention::forward, x, {false, {}});
  }
}

// What patterns remember: those in a window stay as they are.
TEST(Sparse, StatesGrowByWhatLaterPositionsSee) {
  const std::pair<const char*, double> growth[] = {
      {"band:8", 0},   {"dilated:4x3", 0},     {"block:8x2", 0},     {"global:4+band:3", 0},
      {"random:2", 2}, {"strided:5", 2},       {"fixed:16x2", 0.25}, {"row", 0},
      {"column", 2},   {"local2d:2x4x1x3", 0}, {"block2d:3x4", 0}};
  for (const auto& [pattern, expected] : growth)
    EXPECT_EQ(sparse(pattern, {}, DType::f32)->traits().state_growth, expected) << pattern;
}

// Orders, offsets, the tiles with their masks, and these once each.
double bytes_of(const KeyTileSet& set) {
  double words = 0, masks = 0;
  for (const KeyTileSet::Part* part = set.parts; part != set.parts + set.count; ++part) {
    const int64_t blocks = (part->queries.count + kKeyTile - 1) / kKeyTile,
                  tiles = part->offsets[blocks];
    for (const KeyTileSet::Order& order : {part->queries, part->keys})
      words += order.positions == nullptr ? 0 : static_cast<double>(order.count);
    words += static_cast<double>(blocks + 1 + 2 * tiles);
    masks += 1 + *std::max_element(part->masks, part->masks + tiles);
  }
  return 4 * words + 8 * kKeyTile * masks;
}

// The lists of tiles are linear in N, whatever the pattern but for fixed columns, and no array of N x N.
TEST(Sparse, ListsOfTilesAreLinearInTheLength) {
  for (const char* text : {"band:128", "dilated:16x8", "block:64x1", "global:64+random:3",
                           "strided:64", "column", "block2d:3x4", "local2d:2x4x1x3"}) {
    const KeyPattern pattern =
        parse_pattern(text, {.block = 64, .image_width = 10, .image_channels = 3}).at(0);
    const auto bytes = [&](int64_t N) {
      const KeyTilesPtr tiles = PatternView(pattern, N, true, 0).tiles(N);
      return bytes_of(tiles->view());
    };
    const bool grows = std::string(text) == "strided:64" || std::string(text) == "column";
    EXPECT_LE(bytes(4096), (grows ? 4.1 : 2.1) * bytes(2048)) << text;
    EXPECT_LE(bytes(4096), 4096.0 * 64) << text;
  }
}

}  // namespace
}  // namespace linea
