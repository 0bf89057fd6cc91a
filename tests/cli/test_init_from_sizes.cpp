// --init-from with other sizes: the new run starts as the base, and says what it took.
#include "data/safetensors.h"
#include "tests/cli/program.h"

namespace linea {
namespace {

const std::string kStay = " --steps 1 --lr 1e-30 --min-lr 0 --warmup 0";

class InitFromSizes : public ProgramTest {
 protected:
  // A run that has learned something.
  void train(const std::string& line) const {
    done(line + " --steps 20 --lr 1e-2 --warmup 0 --out base");
  }
  // A run from it whose weights stay as they start; what it says, with all fragments.
  void start(const std::string& flags, std::initializer_list<std::string> said) const {
    if (exists("new")) remove("new");
    const Outcome outcome = done("train --init-from base " + flags + kStay + " --out new");
    for (const std::string& fragment : said)
      EXPECT_NE(outcome.err.find(fragment), std::string::npos) << fragment << "\n" << outcome.err;
    EXPECT_EQ(outcome.err.find("weights of base") != std::string::npos, said.size() > 0)
        << outcome.err;
  }
  double loss_of(const std::string& run) const {
    return parse_json(done("eval " + run + " --json").out).at("loss").get<double>();
  }
  void expect_same_loss() const { EXPECT_NEAR(loss_of("new"), loss_of("base"), 1e-4); }
  std::vector<double> tensor(const std::string& run, const std::string& name) const {
    const std::string step = run == "base" ? "20" : "01";
    return SafetensorsFile::open(
               path(run + "/checkpoints/step-000000" + step + "/model.safetensors"))
        .read(name)
        .to_doubles();
  }
  // Row `row` of a table of 16 columns.
  std::vector<double> row(const std::string& run, const std::string& name, int64_t row) const {
    const std::vector<double> all = tensor(run, name);
    const auto begin = all.begin() + row * 16;
    return {begin, begin + 16};
  }
  void expect_row(const std::string& name, int64_t now, int64_t before) const {
    SCOPED_TRACE(fmt::format("{} {} from {}", name, now, before));
    EXPECT_EQ(row("new", name, now), row("base", name, before));
  }
};

// They add 0 and learn: what follows their last products has a gradient.
TEST_F(InitFromSizes, NewLayersAddNothingAtFirst) {
  train(kCopy);
  start("--layers 3", {"weights of base: blocks.1 to 2 new, adding 0 at first\n"});
  expect_same_loss();
  for (const char* last : {"blocks.1.out.weight", "blocks.2.down.weight"})
    for (const double x : tensor("new", last)) EXPECT_NEAR(x, 0, 1e-20) << last;
  done("train --init-from base --layers 2 --steps 2 --lr 1e-2 --warmup 0 --out learned");
  double largest = 0;
  for (const double x :
       SafetensorsFile::open(path("learned/checkpoints/step-00000002/model.safetensors"))
           .read("blocks.1.up.weight")
           .to_doubles())
    largest = std::max(largest, std::abs(x));
  EXPECT_GT(largest, 0.01);
  done("train --init-from new --layers 1" + kStay + " --out fewer");
  EXPECT_NEAR(loss_of("fewer"), loss_of("base"), 1e-4);
}

TEST_F(InitFromSizes, PositionsRepeatOrAreCut) {
  put_text("text.txt", 2000);
  train(kText);
  start("--length 40", {"positions 16 to 39 repeat its 16"});
  expect_row("position_embedding.weight", 15, 15);
  expect_row("position_embedding.weight", 16, 0);
  expect_row("position_embedding.weight", 39, 7);
  start("--length 5", {"the first 5 of its 16 positions"});
  expect_row("position_embedding.weight", 4, 4);
  start("--positions sinusoidal", {"not used of it: position_embedding.weight"});
  start("--positions sinusoidal --length 32", {"not used of it: position_embedding.weight"});
}

TEST_F(InitFromSizes, PositionsOfAnotherKindStartAsTheOldOnes) {
  train(kDigits + " --positions sinusoidal");
  start("--positions learned", {"positions start as its sinusoidal ones"});
  expect_same_loss();
  remove("base");
  train(kDigits);
  start("--positions learned+grid", {"positions start as its learned ones",
                                     "new: row_embedding.weight, column_embedding.weight"});
  expect_same_loss();
  remove("base");
  train(kDigits + " --positions learned+grid");
  start("--positions learned", {"positions start as its learned+grid ones"});
  expect_same_loss();
}

TEST_F(InitFromSizes, ImagesOfAnotherSizeTakeTheNearestPixels) {
  train(kDigits + " --positions learned+grid");
  start("--size 24", {"positions start as those of the nearest pixels of its 12 x 12"});
  expect_row("position_embedding.weight", 24 * 5 + 7, 12 * 2 + 3);
  expect_row("row_embedding.weight", 5, 2);
  expect_row("column_embedding.weight", 23, 11);
  start("--size 24 --positions learned", {"nearest pixels", "its learned+grid ones"});
  start("--size 18", {"nearest pixels"});
  expect_row("row_embedding.weight", 1, 1);
  expect_row("column_embedding.weight", 2, 1);
}

TEST_F(InitFromSizes, ClassesStartAsTheStartOfAnImage) {
  train(kDigits);
  start("--class-token", {"each class starts as its start of an image"});
  for (const int64_t label : {0, 9}) expect_row("token_embedding.weight", 4 + label, 4);
  expect_same_loss();
  start("--class-token --class-dropout 0.1 --class-embedding every",
        {"each class starts as its start", "new: class_embedding.weight"});
  expect_row("token_embedding.weight", 14, 4);
  expect_same_loss();
}

TEST_F(InitFromSizes, ClassDropoutComesAndGoes) {
  train(kDigits + " --class-token --class-dropout 0.2");
  start("--class-dropout 0", {});
  expect_same_loss();
  expect_row("token_embedding.weight", 13, 13);
  start("--no-class-token --class-dropout 0",
        {"the start of an image starts as its token of no class"});
  expect_row("token_embedding.weight", 4, 14);
  remove("base");
  train(kDigits + " --class-token --class-embedding every");
  start("--class-dropout 0.2", {"the token of no class starts as the mean of its classes"});
  expect_same_loss();
  double sum = 0;
  for (int64_t label = 0; label < 10; ++label)
    sum += row("base", "token_embedding.weight", 4 + label)[3];
  EXPECT_NEAR(row("new", "token_embedding.weight", 14)[3], sum / 10, 1e-6);
  start("--class-embedding first", {"not used of it: class_embedding.weight"});
}

TEST_F(InitFromSizes, NamesWhatIsNotUsedAndWhatIsNew) {
  train("train --task copy --length 16 --layers 2 --heads 2 --dim 16 --ffn 32 --batch 2");
  start("--no-bias",
        {"not used of it: ", "blocks.*.norm1.bias", "blocks.*.qkv.bias", "output_head.bias"});
  start("--tie", {"not used of it: output_head.weight, output_head.bias"});
  start("--attention performer --features 8", {"new: blocks.*.attention.omega"});
  start("--layers 1", {"blocks.1 of it left out"});
  start("", {});
  remove("base");
  train(kCopy + " --no-bias --tie");
  start("--bias", {"new: blocks.*.norm1.bias"});
  expect_same_loss();
  start("--no-tie", {"the output matrix starts as its token embedding"});
  expect_same_loss();
  remove("base");
  train(kCopy + " --tie");
  start("--no-tie", {"the output matrix starts as its token embedding", "new: output_head.bias"});
  expect_same_loss();
  remove("base");
  train(kCopy + " --attention vq --codes 4 --codebook gradient");
  start("--codes 5",
        {"not used of it: blocks.*.attention.codebook", "new: blocks.*.attention.codebook"});
}

// Where there is no start, the flag is named.
TEST_F(InitFromSizes, OtherTokensAreRefused) {
  train(kDigits);
  refused(2, "train --init-from base --levels 8 --out new",
          {"--levels was 4 in base and cannot change; leave it out"});
  refused(2, "train --init-from base --task copy --out new", {"base", "task digits", "--init-from"},
          true);
  EXPECT_FALSE(exists("new"));
  refused(2, "train --resume base --steps 30 --optimizer radam",
          {"--optimizer was adamw in base and cannot change on --resume", "--init-from base"});
  start("--optimizer radam", {});
}

}  // namespace
}  // namespace linea
