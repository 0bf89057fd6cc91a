// Everything that can be said wrongly: the exit code, and one line that names what was wrong.
#include "tests/cli/program.h"

namespace linea {
namespace {

class Messages : public ProgramTest {
 protected:
  void config_refused(const std::string& toml, std::initializer_list<std::string> fragments) const {
    SCOPED_TRACE(toml);
    put("c.toml", toml);
    refused(2, kCopy + " --steps 2 --out run --config c.toml", fragments);
    EXPECT_FALSE(exists("run"));
  }
};

TEST_F(Messages, SuggestTheNearestWord) {
  refused(2, kCopy + " --stpes 5 --out run", {"'--stpes'", "'--steps'"});
  refused(2, kCopy + " --stpes=5 --out run", {"'--stpes'", "'--steps'"});
  refused(2, "sample run --temprature 1", {"'--temprature'", "'--temperature'"});
  refused(2, "eval run --jsn", {"'--jsn'", "'--json'"});
  refused(2, "trian", {"'trian'", "'train'"});
  refused(2, "trian --steps 5", {"'trian'", "'train'"});
  refused(2, "", {"--help"});
  refused(2, kCopy + " --out run surplus", {"'surplus'"});
  refused(2, kCopy + " --out run -x", {"'-x'"});
  refused(2, "train --preset digits-dem --out run", {"'digits-dem'", "'digits-demo'"});
  refused(2, "train --preset zzzzzzzzzzzzzzzzzz --out run", {"zzzzzzzzzzzzzzzzzz", "digits-demo"});
  refused(2, kCopy + " --attention linaer --out run",
          {"'linaer'", "performer, pooling, prior, retnet, routing, sinkhorn, soft-vq, softmax, "});
  refused(2, kCopy + " --feature cosine --out run", {"'cosine'", "elu, relu, exp, square, dpfp"});
  refused(2, kCopy + " --optimizer sgd --out run", {"'sgd'", "adamw, adam, radam"});
  refused(2, kCopy + " --positions rotated --out run", {"'rotated'", "learned, sinusoidal"});
  refused(2, kCopy + " --positions rotary --out run", {"--positions rotary", "--attention linear"});
  refused(2, kCopy + " --layer-convolution 2d --out run", {"--layer-convolution 2d", "1d"});
  refused(2, "train --task chess --out run",
          {"'chess'", "digits, mnist, cifar10, images, text, copy"});
  refused(2, "train --out run", {"--task", "digits, mnist, cifar10, images, text, copy"});
  refused(2, kCopy, {"--out"});
  refused(2, kCopy + " --device cuda --out run", {"'cuda'", "cpu"});
  refused(2, "verify --attention nope",
          {"nope", "performer, pooling, prior, retnet, routing, sinkhorn, soft-vq, softmax, "});
  refused(2, "bench attention --attention nope --lengths 8 --seconds 0 --json",
          {"'nope'", "performer, pooling, prior, retnet, routing, sinkhorn, soft-vq, softmax, "});
  EXPECT_FALSE(exists("run"));
}

TEST_F(Messages, ShowInvalidNumbers) {
  const std::string copy = "train --task copy --length 16 --out run";
  int64_t calls = 0;
  const auto numbers = [&](const std::string& flags, std::initializer_list<std::string> fragments) {
    if (calls++ % (kSanitized ? 4 : 1) == 0) refused(2, copy + " " + flags, fragments);
  };
  numbers("--dim 16 --heads 3", {"--dim 16", "--heads 3"});
  for (const char* size : {"layers", "heads", "dim", "ffn", "batch", "accumulate", "steps"})
    for (const char* value : {"0", "-3"})
      numbers(fmt::format("--{} {}", size, value),
              {fmt::format("--{} is {}", size, value), "at least 1"});
  for (const char* value : {"0", "-3"})
    numbers(fmt::format("--feature dpfp --nu {}", value),
            {fmt::format("--nu is {}", value), "at least 1"});
  numbers("--nu 2", {"--nu", "--feature dpfp"});
  for (const char* size : {"warmup", "seed", "save-every", "eval-every", "sample-every",
                           "keep-last", "threads", "segment", "chunk"})
    numbers(fmt::format("--{} -1", size), {fmt::format("--{} is -1", size), "at least 0"});
  for (const char* size : {"batch", "dim", "ffn", "layers", "steps", "threads", "warmup"}) {
    numbers(fmt::format("--{} 4611686018427387904", size), {fmt::format("--{} is", size), "below"});
    numbers(fmt::format("--{} 99999999999999999999", size),
            {fmt::format("--{} is", size), "below"});
  }
  for (const char* value : {"1.5", "abc", "1x", ""})
    refused(2, words_of(copy) + Words{"--steps", value}, {"--steps"});
  numbers("--steps", {"--steps"});
  numbers("--lr abc", {"--lr"});
  for (const char* value : {"0", "-1", "nan", "inf"})
    numbers(fmt::format("--lr {}", value), {fmt::format("--lr is {}", value)});
  for (const char* value : {"-1", "nan"}) {
    numbers(fmt::format("--clip {}", value), {fmt::format("--clip is {}", value)});
    numbers(fmt::format("--weight-decay {}", value), {fmt::format("--weight-decay is {}", value)});
    numbers(fmt::format("--min-lr {}", value), {fmt::format("--min-lr is {}", value)});
    numbers(fmt::format("--dropout {}", value), {fmt::format("--dropout is {}", value)});
  }
  numbers("--dropout 1", {"--dropout is 1"});
  numbers("--beta1 1", {"--beta1 is 1", "[0, 1)"});
  numbers("--beta2 -0.5", {"--beta2 is -0.5"});
  numbers("--optimizer adam --weight-decay 0.1", {"--weight-decay", "adamw, radam", "not of adam"});
  numbers("--feature dpfp --nu 99", {"nu is 99"});
  numbers("--tie=3", {"--tie", "3"});
  refused(2, "train --task copy --length 15 --out run", {"15", "even"});
  refused(2, "train --task digits --levels 1 --out run", {"--levels is 1", "2..256"});
  refused(2, "train --task digits --size 3 --out run", {"3"});
  refused(2, "train --task digits --length 7 --out run", {"--length", "text, copy", "digits"});
  refused(2, "train --task digits --data somewhere --out run", {"--data", "not of digits"});
  EXPECT_FALSE(exists("run"));
  refused(5, copy + " --ffn 2000000000 --dim 200000", {"memory"});
}

TEST_F(Messages, LocateErrorsInAConfig) {
  config_refused("dimm = 3\n", {"c.toml", "'dimm'", "'dim'"});
  config_refused("min-lr = 0.1\n", {"'min-lr'", "'min_lr'"});
  config_refused("zzzzzzzzzzzzzzzzzzzz = 3\n", {"'zzzzzzzzzzzzzzzzzzzz'"});
  config_refused("warmup = \"three\"\n", {"c.toml", "'three'", "'warmup'"});
  config_refused("warmup = 3.5\n", {"'warmup' is 3.5", "whole number"});
  config_refused("warmup = true\n", {"'warmup' is true", "whole number"});
  config_refused("warmup = 99999999999999999999\n", {"c.toml:1", "warmup"});
  config_refused("warmup = 4611686018427387904\n", {"'warmup' is 4611686018427387904", "below"});
  config_refused("warmup = -5\n", {"c.toml:1", "'warmup' is -5", "at least 0"});
  config_refused("lr = fast\n", {"c.toml:1", "lr = fast"});
  config_refused("tie = 3\n", {"'tie' is 3", "true or false"});
  config_refused("tie = maybe\n", {"tie = maybe"});
  config_refused("warmup = [1, 2]\n", {"c.toml:1", "'warmup'"});
  config_refused("warmup = 1\nwarmup = 2\n", {"c.toml:2", "warmup"});
  config_refused("warmup =\n", {"c.toml:1", "warmup"});
  config_refused("warmup = \"\"\n", {"'warmup'"});
  config_refused("[training]\nwarmup = 3\n", {"c.toml", "[training]"});
  config_refused("this is not toml\n", {"c.toml", "this is not toml"});
  config_refused("[[[[\n", {"c.toml"});
  config_refused("= 3\n", {"c.toml"});
  config_refused("{\"dim\": 3}\n", {"c.toml"});
  std::string noise;
  for (uint32_t i = 0, state = 1; i < 2000; ++i)
    noise += static_cast<char>((state = state * 1664525u + 1013904223u) >> 24);
  config_refused(noise, {"c.toml"});
  refused(3, kCopy + " --out run --config nowhere.toml", {"nowhere.toml"});
  refused(3, kCopy + " --out run --config .", {"folder"});
}

TEST_F(Messages, NameUnreadableData) {
  const auto text = [&](const std::string& more) { return "train --task text --out run " + more; };
  refused(2, text(""), {"--data"});
  refused(3, text("--data nowhere.txt"), {"nowhere.txt"});
  refused(3, text("--data ."), {"folder"});
  refused(3, text("--data /dev/zero"), {"/dev/zero", "regular file"});
  put("empty.txt", "");
  refused(3, text("--data empty.txt"), {"empty.txt", "empty"});
  put_text("short.txt", 100);
  refused(3, text("--data short.txt --length 90"), {"short.txt", "100", "90"});
  refused(3, text("--data short.txt"), {"short.txt", "--length"});
  EXPECT_FALSE(exists("run"));
}

TEST_F(Messages, NameAnUnusableOutputFolder) {
  done(kCopy + " --steps 1 --out run");
  const std::string model = bytes("run/checkpoints/step-00000001/model.safetensors");
  refused(2, kCopy + " --steps 1 --seed 2 --out run", {"run", "holds a run", "--resume run"});
  EXPECT_EQ(bytes("run/checkpoints/step-00000001/model.safetensors"), model);
  put("file", "");
  refused(6, kCopy + " --steps 1 --out file", {"file"});
  refused(6, kCopy + " --steps 1 --out file/below", {"file/below", "file"});
  EXPECT_EQ(bytes("file"), "");
  done(kCopy + " --steps 1 --out deep/er/run");
  EXPECT_TRUE(exists("deep/er/run/config.toml"));
}

// The first of several errors is shown.
TEST_F(Messages, FollowTheOrderOfTheUser) {
  config_refused("warmup = -1\nbatch = -2\n", {"c.toml:1", "'warmup' is -1"});
  refused(2, kCopy + " --warmup -1 --accumulate -2 --out run", {"--warmup is -1"});
  refused(2, kCopy + " --accumulate -2 --warmup -1 --out run", {"--accumulate is -2"});
}

// A command that is shown can be copied, whatever the name of the run.
TEST_F(Messages, CommandsAreQuotedForTheShell) {
  const Words run = {"--out", "it's a run", "--task", "copy",  "--layers",
                     "1",     "--heads",    "1",      "--dim", "4"};
  const std::string word = "'it'\\''s a run'";
  Outcome outcome = done(Words{"train"} + run + Words{"--steps", "1"});
  EXPECT_NE(outcome.err.find("next: linea eval " + word + "\n"), std::string::npos) << outcome.err;
  refused(2, Words{"train"} + run, {"continue it with --resume " + word + ","});
  refused(2, {"train", "--resume", "it's a run", "--layers", "2"}, {"--init-from " + word});
  outcome =
      linea(Words{"train", "--resume", "it's a run", "--steps", "9999999", "--max-time", "1s"});
  EXPECT_EQ(outcome.code, 75);
  EXPECT_NE(outcome.err.find("linea train --resume " + word + "\n"), std::string::npos)
      << outcome.err;
}

// The path of the data is relative to the folder in which the run was started.
TEST_F(Messages, DataThatIsElsewhereIsAskedFor) {
  put_text("text.txt", 600);
  done(kText + " --steps 2 --out run");
  fs::rename(path("text.txt"), path("moved.txt"));
  const std::initializer_list<std::string> wanted = {
      "text.txt: no such file", "relative to the folder", fs::canonical(path("")).string(),
      "give its path by --data"};
  refused(3, "eval run", wanted);
  refused(3, "judge run", wanted, true);
  refused(3, "train --resume run --steps 4", wanted, true);
  refused(3, "train --resume run --steps 4 --dry-run", wanted);
  refused(3, "train --init-from run --out other", wanted, true);
  done("eval run --data moved.txt");
  refused(3, "eval run --data " + path("none.txt"),
          {"none.txt: no such file", "if the data was moved, give its path by --data"});
}

}  // namespace
}  // namespace linea
