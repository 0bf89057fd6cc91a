// Patterns of keys that papers gave a name, as expressions of `sparse --pattern`. What each leaves out of its
// paper: docs/mechanisms.md.
#include <fmt/args.h>

#include <cmath>

#include "nn/attention/builtin.h"
#include "nn/attention/sparse.h"

namespace linea {
namespace {

struct PatternAlias {
  const char *name, *summary, *source;
  Declarations settings;
  SparseExpressions expressions;  // with settings in braces; {row}: positions of a row of an image
  Settings variant;               // of small sizes, that the tests and `verify` check
  bool of_images = false;
  SparseExpressions (*choose)(const AttentionOptions&) = nullptr;  // them by the settings
};

Setting size(const char* key, int64_t initial, int64_t min, const char* help) {
  using namespace declare;
  return labeled_if_changed(integer(key, initial, at_least(static_cast<double>(min)), help));
}

SparseExpressions same(const std::string& expression) { return {expression, expression}; }

// With global positions and dilated heads where there are any.
SparseExpressions longformer(const AttentionOptions& options) {
  const std::string last = options.settings.integer("globals") > 0 ? "+last:{globals}" : "",
                    band = "band:{window}", dilated = "dilated:{window}x{dilation}";
  if (options.settings.integer("dilation") == 1) return {band + last, band};
  return {.bidirectional = band + last + "/" + dilated + last,
          .causal = band + "/" + dilated,
          .by_head = true};
}

// Blocks and strides.
std::vector<PatternAlias> local_aliases() {
  return {{"local",
           "blocks of positions",
           "Tay 2020, Long Range Arena",
           {size("block", 64, 1, "positions of a block")},
           same("block:{block}"),
           {{"block", int64_t{24}}}},
          {"sparse-fixed",
           "blocks of positions, and the last ones of each block",
           "Child 2019",
           {size("stride", 128, 1, "positions of a block"),
            size("summary", 8, 1, "of these, the last ones that later blocks see")},
           same("block:{stride}+fixed:{stride}x{summary}"),
           {{"stride", int64_t{16}}, {"summary", int64_t{2}}}},
          {"sparse-strided",
           "a window, and every l-th position before",
           "Child 2019",
           {size("stride", 0, 0, "l; 0: an image's row, or else the square root of the length")},
           same("band:{stride}+strided:{stride}"),
           {{"stride", int64_t{12}}}}};
}

// Windows with positions that see all.
std::vector<PatternAlias> global_aliases() {
  return {{"bigbird",
           "neighbors, first and last block, random blocks",
           "Zaheer 2020",
           {size("block", 64, 1, "positions of a block"),
            size("randoms", 3, 1, "random blocks of a block of queries")},
           {"block:{block}x1+global:{block}+last:{block}+random:{randoms}",
            "block:{block}x1+global:{block}+random:{randoms}"},
           {{"block", int64_t{16}}, {"randoms", int64_t{2}}}},
          {"etc",
           "a window and global positions",
           "Ainslie 2020",
           {size("window", 128, 1, "keys on one side, the position included"),
            size("globals", 16, 1, "global positions, the last ones")},
           {"band:{window}+last:{globals}", "",
            "its global positions are the last ones, which see all and are seen by all"},
           {{"window", int64_t{20}}, {"globals", int64_t{3}}}},
          {"longformer",
           "a window, dilated in some heads, and global positions",
           "Beltagy 2020",
           {size("window", 128, 1, "keys on one side, the position included"),
            size("dilation", 1, 1, "distance of the keys of every second head"),
            size("globals", 1, 0, "global positions, the last ones, where not causal")},
           {},
           {{"window", int64_t{20}}, {"dilation", int64_t{3}}},
           false,
           longformer},
          {"star",
           "neighbors, and a relay that sees all",
           "Guo 2019",
           {},
           {"band:2+last:1", "", "its relay reads the future"},
           {}}};
}

std::vector<PatternAlias> image_aliases() {
  return {
      {"axial",
       "rows and columns of an image in turn",
       "Ho 2019",
       {},
       {"row/column", "band:{row}/column"},
       {},
       true},
      {"image-local-1d",
       "blocks of positions, and the block before",
       "Parmar 2018",
       {size("block", 256, 1, "positions of a block"), size("before", 1, 1, "blocks before it")},
       same("block:{block}x{before}"),
       {{"block", int64_t{32}}}},
      {"image-local-2d",
       "tiles of an image, with what is above and at the sides",
       "Parmar 2018",
       {},
       same("local2d:8x16x8x32"),
       {},
       true}};
}

// Rounded up, at least 1.
int64_t square_root(int64_t length) {
  return std::max<int64_t>(1,
                           static_cast<int64_t>(std::ceil(std::sqrt(static_cast<double>(length)))));
}

// The expressions with the values of the settings.
SparseExpressions expressions_of(const PatternAlias& alias, const AttentionOptions& options) {
  const int64_t row = options.image_width * options.image_channels;
  fmt::dynamic_format_arg_store<fmt::format_context> values;
  values.push_back(fmt::arg("row", std::max<int64_t>(1, row)));
  for (const auto& [key, value] : options.settings) {
    int64_t number = std::get<int64_t>(value);
    if (key == "stride" && number == 0) number = row > 0 ? row : square_root(options.length);
    values.push_back(fmt::arg(key.c_str(), number));
  }
  SparseExpressions result = alias.choose == nullptr ? alias.expressions : alias.choose(options);
  for (std::string* const expression : {&result.bidirectional, &result.causal})
    *expression = fmt::vformat(*expression, values);
  return result;
}

}  // namespace

std::vector<AttentionEntry> sparse_aliases() {
  std::vector<AttentionEntry> entries;
  std::vector<PatternAlias> aliases = local_aliases();
  for (const auto& more : {global_aliases(), image_aliases()})
    aliases.insert(aliases.end(), more.begin(), more.end());
  for (const PatternAlias& alias : aliases) {
    AttentionEntry& entry = entries.emplace_back();
    entry.name = alias.name;
    entry.summary = alias.summary;
    entry.source = alias.source;
    entry.settings = alias.settings;
    entry.make = [alias](const AttentionOptions& options) {
      const Settings& settings = options.settings;
      require(!alias.of_images || options.image_width > 0,
              "`attention` {} needs an image: choose a task of images, without `skip_blank`, or "
              "another attention (in `linea attend` --image-width)",
              options.name);
      return make_sparse(options, settings.has("block") ? settings.integer("block") : 64,
                         expressions_of(alias, options));
    };
    entry.variants = {alias.variant};
    entry.cpu_only = true;
  }
  return entries;
}

}  // namespace linea
