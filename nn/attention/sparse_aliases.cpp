// Patterns of keys that papers gave a name, as expressions of `sparse --pattern`. What each leaves out of its
// paper: docs/mechanisms.md.
#include <cmath>

#include "nn/attention/builtin.h"
#include "nn/attention/sparse.h"

namespace linea {
namespace {

struct Alias {
  const char *name, *summary, *source;
  Declarations settings;
  SparseExpressions (*expressions)(const AttentionOptions&);
  Settings variant;  // of small sizes, that the tests and `verify` check
  bool of_images = false;
};

int64_t given(const AttentionOptions& options, const char* key) {
  return options.settings.integer(key);
}

// What divides the setting `stride` where it is 0: an image's row, or else the square root of the length.
int64_t stride_of(const AttentionOptions& options) {
  if (const int64_t stride = given(options, "stride"); stride > 0) return stride;
  if (options.image_width > 0) return options.image_width * options.image_channels;
  return std::max<int64_t>(
      1, static_cast<int64_t>(std::ceil(std::sqrt(static_cast<double>(options.length)))));
}

Setting size(const char* key, int64_t initial, int64_t min, const char* help) {
  using namespace declare;
  return labeled(InLabel::if_changed,
                 of_model(integer(key, initial, at_least(static_cast<double>(min)), help)));
}

SparseExpressions same(const std::string& expression) { return {expression, expression}; }

SparseExpressions longformer(const AttentionOptions& options) {
  const int64_t w = given(options, "window"), d = given(options, "dilation"),
                g = given(options, "globals");
  const std::string last = g > 0 ? fmt::format("+last:{}", g) : "";
  const std::string band = fmt::format("band:{}", w), dilated = fmt::format("dilated:{}x{}", w, d);
  if (d == 1) return {band + last, band};
  return {.bidirectional = band + last + "/" + dilated + last,
          .causal = band + "/" + dilated,
          .by_head = true};
}

// Blocks and strides.
std::vector<Alias> local_aliases() {
  using Options = AttentionOptions;
  return {{"local",
           "blocks of positions",
           "Tay 2020, Long Range Arena",
           {size("block", 64, 1, "positions of a block")},
           [](const Options& options) {
             return same(fmt::format("block:{}", given(options, "block")));
           },
           {{"block", int64_t{24}}}},
          {"sparse-fixed",
           "blocks of positions, and the last ones of each block",
           "Child 2019",
           {size("stride", 128, 1, "positions of a block"),
            size("summary", 8, 1, "of these, the last ones that later blocks see")},
           [](const Options& options) {
             const int64_t l = given(options, "stride");
             return same(fmt::format("block:{}+fixed:{}x{}", l, l, given(options, "summary")));
           },
           {{"stride", int64_t{16}}, {"summary", int64_t{2}}}},
          {"sparse-strided",
           "a window, and every l-th position before",
           "Child 2019",
           {size("stride", 0, 0, "l; 0: an image's row, or else the square root of the length")},
           [](const Options& options) {
             const int64_t l = stride_of(options);
             return same(fmt::format("band:{}+strided:{}", l, l));
           },
           {{"stride", int64_t{12}}}}};
}

// Windows with positions that see all.
std::vector<Alias> global_aliases() {
  using Options = AttentionOptions;
  return {
      {"bigbird",
       "neighbors, first and last block, random blocks",
       "Zaheer 2020",
       {size("block", 64, 1, "positions of a block"),
        size("randoms", 3, 1, "random blocks of a block of queries")},
       [](const Options& options) {
         const int64_t b = given(options, "block"), r = given(options, "randoms");
         return SparseExpressions{fmt::format("block:{}x1+global:{}+last:{}+random:{}", b, b, b, r),
                                  fmt::format("block:{}x1+global:{}+random:{}", b, b, r)};
       },
       {{"block", int64_t{16}}, {"randoms", int64_t{2}}}},
      {"etc",
       "a window and global positions",
       "Ainslie 2020",
       {size("window", 128, 1, "keys on one side, the position included"),
        size("globals", 16, 1, "global positions, the last ones")},
       [](const Options& options) {
         return SparseExpressions{
             fmt::format("band:{}+last:{}", given(options, "window"), given(options, "globals")),
             "", "its global positions are the last ones, which see all and are seen by all"};
       },
       {{"window", int64_t{20}}, {"globals", int64_t{3}}}},
      {"longformer",
       "a window, dilated in some heads, and global positions",
       "Beltagy 2020",
       {size("window", 128, 1, "keys on one side, the position included"),
        size("dilation", 1, 1, "distance of the keys of every second head"),
        size("globals", 1, 0, "global positions, the last ones, where not causal")},
       longformer,
       {{"window", int64_t{20}}, {"dilation", int64_t{3}}}},
      {"star",
       "neighbors, and a relay that sees all",
       "Guo 2019",
       {},
       [](const Options&) {
         return SparseExpressions{"band:2+last:1", "", "its relay reads the future"};
       },
       {}}};
}

std::vector<Alias> image_aliases() {
  using Options = AttentionOptions;
  return {
      {"axial",
       "rows and columns of an image in turn",
       "Ho 2019",
       {},
       [](const Options& options) {
         return SparseExpressions{
             "row/column",
             fmt::format("band:{}/column",
                         std::max<int64_t>(1, options.image_width * options.image_channels))};
       },
       {},
       true},
      {"image-local-1d",
       "blocks of positions, and the block before",
       "Parmar 2018",
       {size("block", 256, 1, "positions of a block"), size("before", 1, 1, "blocks before it")},
       [](const Options& options) {
         return same(fmt::format("block:{}x{}", given(options, "block"), given(options, "before")));
       },
       {{"block", int64_t{32}}}},
      {"image-local-2d",
       "tiles of an image, with what is above and at the sides",
       "Parmar 2018",
       {},
       [](const Options&) { return same("local2d:8x16x8x32"); },
       {},
       true}};
}

}  // namespace

std::vector<AttentionEntry> sparse_aliases() {
  std::vector<AttentionEntry> entries;
  std::vector<Alias> aliases = local_aliases();
  for (const auto& more : {global_aliases(), image_aliases()})
    aliases.insert(aliases.end(), more.begin(), more.end());
  for (const Alias& alias : aliases) {
    AttentionEntry& entry = entries.emplace_back();
    entry.name = alias.name;
    entry.summary = alias.summary;
    entry.source = alias.source;
    entry.settings = alias.settings;
    entry.make = [expressions = alias.expressions,
                  of_images = alias.of_images](const AttentionOptions& options) {
      const Settings& settings = options.settings;
      require(!of_images || options.image_width > 0,
              "`attention` {} needs an image: choose a task of images, or another attention",
              options.name);
      return make_sparse(options, settings.has("block") ? settings.integer("block") : 64,
                         expressions(options));
    };
    entry.variants = {alias.variant};
    entry.cpu_only = true;
  }
  return entries;
}

}  // namespace linea
