// linea sample and linea eval: what they print and write, from a run, a checkpoint's folder or the
// file alone.
#include <set>

#include "tests/cli/program.h"

#include "tests/data/readers/idx_bytes.h"

namespace linea {
namespace {

class Sample : public ProgramTest {
 protected:
  std::pair<int64_t, int64_t> png_size(const std::string& name) const {
    const std::string png = bytes(name);
    EXPECT_EQ(png.substr(0, 8), "\x89PNG\r\n\x1a\n");
    EXPECT_EQ(png.substr(12, 4), "IHDR");
    EXPECT_EQ(png.substr(png.size() - 8, 4), "IEND");
    const auto number = [&](size_t at) {
      int64_t value = 0;
      for (size_t i = 0; i < 4; ++i) value = value << 8 | static_cast<unsigned char>(png[at + i]);
      return value;
    };
    return {number(16), number(20)};
  }
};
class Eval : public ProgramTest {
 protected:
  nlohmann::json score(const std::string& arguments) const {
    const Outcome outcome = done("eval --json " + arguments);
    EXPECT_EQ(lines_of(outcome.out).size(), 1u) << outcome.out;
    const nlohmann::json result = parse_json(outcome.out);
    EXPECT_EQ(result.size(), result.contains("bits_per_byte") ? 6u : 4u) << outcome.out;
    size_t at = 0;  // in this order
    for (const char* key : {"\"loss\":", "\"bits\":", "\"accuracy\":", "\"tokens\":"})
      EXPECT_NE(at = outcome.out.find(key, at), std::string::npos) << key << " in " << outcome.out;
    EXPECT_NEAR(result["bits"], result["loss"].get<double>() / std::log(2.0), 1e-12);
    EXPECT_TRUE(result["tokens"].is_number_integer());
    EXPECT_GE(result["accuracy"], 0.0);
    EXPECT_LE(result["accuracy"], 1.0);
    return result;
  }
};

TEST_F(Sample, WritesAGridOfImages) {
  done(kDigits + " --steps 3 --out run");
  const Outcome outcome = done("sample run --count 10 --out grid.png");
  EXPECT_EQ(lines_of(outcome.out).back(), "grid.png");
  EXPECT_EQ(outcome.out.find('\x1b'), std::string::npos);
  // 5 columns, 2 lines of 12 x 12 images, each pixel 4 x 4, a line of 1 between
  EXPECT_EQ(png_size("grid.png"), (std::pair<int64_t, int64_t>{5 * 48 + 4, 2 * 48 + 1}));
  done("sample run --count 3 --seed 5 --out grid.png");
  EXPECT_EQ(png_size("grid.png"), (std::pair<int64_t, int64_t>{3 * 48 + 2, 48}));

  const auto sampled = [&](const std::string& more) {
    done("sample run --count 3 --out x.png " + more);
    return bytes("x.png");
  };
  EXPECT_EQ(sampled("--seed 5"), bytes("grid.png"));
  EXPECT_EQ(sampled("--seed 5 --threads 1"), bytes("grid.png"));
  EXPECT_NE(sampled("--seed 6"), bytes("grid.png"));
  EXPECT_EQ(sampled("--seed 5 --dtype fp32"), bytes("grid.png"));
  EXPECT_EQ(sampled("--seed 6 --dtype bf16"), sampled("--seed 6 --dtype bf16"));
  EXPECT_NE(sampled("--seed 5 --temperature 0.2"), bytes("grid.png"));
  EXPECT_EQ(sampled("--greedy --seed 5"), sampled("--greedy --seed 6"));
  EXPECT_EQ(sampled("--greedy"), sampled("--temperature 1e-9"));
}

TEST_F(Sample, AColumnForEachClass) {
  done(kDigits + " --class-token --steps 1 --out run");
  done("sample run --count 30 --out grid.png");
  EXPECT_EQ(png_size("grid.png"), (std::pair<int64_t, int64_t>{10 * 48 + 9, 3 * 48 + 2}));
  done("sample run --count 30 --class 7 --out grid.png");
  EXPECT_EQ(png_size("grid.png"), (std::pair<int64_t, int64_t>{6 * 48 + 5, 5 * 48 + 4}));
}

TEST_F(Sample, TheDefaultNameReplacesNoFile) {
  done(kDigits + " --steps 1 --out run");
  EXPECT_EQ(lines_of(done("sample run --count 1").out).back(), "grid.png");
  const std::string first = bytes("grid.png");
  EXPECT_EQ(lines_of(done("sample run --count 2").out).back(), "grid-2.png");
  EXPECT_EQ(lines_of(done("sample run --nll-map --count 1").out).back(), "grid-3.png");
  EXPECT_EQ(bytes("grid.png"), first);
  for (const char* name : {"x.jpg", "x.jpeg", "y/x.gif", "x.png.txt"})
    refused(2, fmt::format("sample run --count 1 --out {}", name), {name, "name a .png file"});
  done("sample run --count 1 --out upper.PNG");
  done("sample run --count 1 --out plain");
}

TEST_F(Sample, RefusesMoreThanOnePngHolds) {
  done(kDigits + " --steps 1 --out run");
  for (const char* count : {"28000", "2000000000000", "9223372036854775807"})
    for (const char* more : {"", " --complete test:0 test:1"})
      refused(2, fmt::format("sample run --count {}{}", count, more),
              {"12 x 12 pixels", "one PNG of at most 67108864 pixels", "lower --count"});
  EXPECT_FALSE(exists("grid.png"));
}

TEST_F(Sample, ConditionsOnAClass) {
  done(kDigits +
       " --class-token --class-embedding every --steps 60 --lr 0.02 --warmup 0 --out classes");
  done(kDigits + " --steps 3 --out plain");
  refused(2, kDigits + " --class-embedding every --out x",
          {"--class-embedding every", "--class-token"});
  const auto sampled = [&](const std::string& more) {
    done("sample classes --count 16 --out x.png " + more);
    return bytes("x.png");
  };
  const std::string each_in_turn = sampled(""), third = sampled("--class 3"),
                    last = sampled("--class 9");
  EXPECT_NE(each_in_turn, third);
  EXPECT_NE(third, last);
  EXPECT_EQ(third, sampled("--class 3"));
  refused(2, "sample classes --class 10", {"--class", "10", "9"});
  refused(2, "sample classes --class -2", {"--class", "-2", "9"});
  refused(2, "sample classes --class -1", {"--class is -1", "9"});
  refused(2, "sample plain --class 3", {"--class 3", "--class-token"});
}

TEST_F(Sample, FollowsItsClassByGuidance) {
  const std::string classes = kDigits + " --class-token --class-embedding every";
  done(classes + " --class-dropout 0.3 --steps 60 --lr 0.02 --warmup 0 --out run");
  done(classes + " --steps 3 --out certain");
  const auto sampled = [&](const std::string& more) {
    done("sample run --count 16 --out x.png " + more);
    return bytes("x.png");
  };
  const std::string plain = sampled("");
  EXPECT_EQ(sampled("--guidance 1"), plain);
  const std::string guided = sampled("--guidance 3");
  EXPECT_NE(guided, plain);
  EXPECT_EQ(sampled("--guidance 3"), guided);
  EXPECT_NE(sampled("--guidance 3 --class 2 --temperature 0.8 --top-p 0.9"), guided);
  EXPECT_NE(sampled("--guidance 3 --complete test:0"), sampled("--complete test:0"));
  refused(2, "sample certain --guidance 2", {"--guidance 2", "--class-dropout"});
  refused(2, "sample run --guidance -1", {"--guidance is -1", "at least 0"});
  refused(2, "sample run --nll-map --guidance 2", {"--guidance", "--nll-map"});
  refused(2, kDigits + " --class-dropout 0.1 --out x", {"--class-dropout 0.1", "--class-token"});
}

TEST_F(Sample, ContinuesAPrompt) {
  put_text("text.txt", 2000);
  done(kText + " --steps 3 --out run");
  const auto tokens = [](const std::string& text) {
    return std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; });
  };
  const std::string prompt = "ab \xC3\xA9 cd";
  const std::string out =
      done(Words{"sample", "run", "--prompt", prompt, "--tokens", "40", "--seed", "3"}).out;
  EXPECT_EQ(out.substr(0, prompt.size()), prompt);
  EXPECT_EQ(tokens(out), 7 + 40 + 1);
  EXPECT_EQ(out.back(), '\n');
  EXPECT_EQ(out,
            done(Words{"sample", "run", "--prompt", prompt, "--tokens", "40", "--seed", "3"}).out);
  EXPECT_NE(out,
            done(Words{"sample", "run", "--prompt", prompt, "--tokens", "40", "--seed", "4"}).out);
  put("prompt.txt", prompt);
  EXPECT_EQ(out, done("sample run --prompt-file prompt.txt --tokens 40 --seed 3").out);
  EXPECT_EQ(tokens(done("sample run").out), 501);
  put_text("long.txt", 300);  // longer than the model
  EXPECT_EQ(tokens(done("sample run --prompt-file long.txt --tokens 7").out), 308);

  refused(3, "sample run --prompt abxy", {"'x'", "position 3"});
  refused(3, Words{"sample", "run", "--prompt", "a\xC3\xBC"}, {"'\xC3\xBC'", "U+00FC"});
  refused(3, Words{"sample", "run", "--prompt", "a\xFF"}, {"prompt"});
  refused(3, "sample run --prompt-file nowhere.txt", {"nowhere.txt"});
  refused(2, "sample run --prompt a --prompt-file prompt.txt", {"--prompt-file"});
  refused(2, "sample run --tokens 0", {"--tokens", "0"});
  done(kCopy + " --steps 1 --out copy");
  refused(2, "sample copy", {"does not sample text"});
}

TEST_F(Sample, ContinuesAPromptSeveralTimes) {
  put_text("text.txt", 2000);
  done(kText + " --steps 3 --out run");
  const auto texts = [&](const std::string& arguments) {
    std::vector<std::string> result = {""};
    for (const std::string& line :
         lines_of(done("sample run --prompt ab --tokens 30 " + arguments).out))
      line == "---" ? result.emplace_back() : result.back().append(line + "\n");
    return result;
  };
  const std::vector<std::string> three = texts("--count 3");
  ASSERT_EQ(three.size(), 3u);
  for (const std::string& text : three) EXPECT_EQ(text.substr(0, 2), "ab");
  EXPECT_EQ(std::set<std::string>(three.begin(), three.end()).size(), 3u);
  EXPECT_EQ(texts("--count 1"), texts(""));
  EXPECT_EQ(texts("--count 3"), three);
  EXPECT_EQ(texts("--count 2")[1], three[1]);
}

TEST_F(Sample, AnswersEachLine) {
  put_text("text.txt", 2000);
  done(kText + " --steps 3 --out run");
  put("lines.txt", "ab\nab\nabx\n\ncd");
  const std::string command = "cd '" + path("") +
                              "' && '" LINEA_PROGRAM
                              "' sample run --interactive --tokens 20 <lines.txt >out 2>err";
  ASSERT_EQ(std::system(command.c_str()), 0);
  const std::string first = done("sample run --prompt ab --tokens 20").out, out = bytes("out");
  EXPECT_EQ(out.substr(0, first.size()), first);
  EXPECT_EQ(out.substr(first.size(), 2), "ab");
  EXPECT_NE(out.substr(first.size(), first.size()), first);
  EXPECT_NE(out.find("\ncd"), std::string::npos);
  const Words complaints = lines_of(bytes("err"));
  ASSERT_EQ(complaints.size(), 1u) << bytes("err");
  EXPECT_NE(complaints[0].find("'x'"), std::string::npos) << complaints[0];
}

// The checkpoint of step 2, though step 4 is newer.
TEST_F(Sample, TakesTheBestCheckpoint) {
  done(kDigits + " --steps 4 --save-every 2 --lr 0.1 --warmup 0 --out run");
  refused(2, "sample run/checkpoints/step-00000002 --best", {"--best", "not the folder of a run"});
  put("run/metrics.jsonl",
      "{\"step\":1,\"val_loss\":1,\"val_tokens\":9}\n"  // not saved
      "{\"step\":2,\"val_loss\":2,\"val_tokens\":9}\n"
      "{\"step\":4,\"val_loss\":3,\"val_tokens\":9}\n");
  const auto sample = [&](const std::string& arguments) {
    done("sample " + arguments + " --count 2 --out x.png");
    return bytes("x.png");
  };
  EXPECT_EQ(sample("run --best"), sample("run/checkpoints/step-00000002"));
  EXPECT_NE(sample("run --best"), sample("run"));
  put("run/metrics.jsonl", "{\"step\":4,\"loss\":3}\n");
  refused(2, "sample run --best", {"--best", "--eval-every"});
}

TEST_F(Sample, RefusesInapplicableOptions) {
  done(kDigits + " --steps 1 --out images");
  put_text("text.txt", 2000);
  done(kText + " --steps 1 --out text");
  refused(2, "sample images --prompt a", {"--prompt", "images"});
  refused(2, "sample images --tokens 5", {"--tokens", "images"});
  refused(2, "sample text --out a.png", {"--out", "text"});
  refused(2, "sample text --class 1", {"--class", "text"});
  refused(2, "sample text --scale 2", {"--scale", "text"});
  refused(2, "sample text --count 0", {"--count", "0"});
  refused(2, "sample images --interactive", {"--interactive", "images"});
  refused(2, "sample text --interactive --count 2", {"--interactive", "--count"});
  refused(2, "sample text --interactive --prompt a", {"--interactive", "--prompt"});
  refused(2, "sample text --interactive --tokens 0", {"--tokens", "0"});
  for (const char* temperature : {"0", "-1", "nan"})
    for (const char* run : {"images", "text"})
      refused(2, fmt::format("sample {} --temperature {}", run, temperature),
              {"--temperature is", "--greedy"});
  refused(2, "sample text --greedy --top-p 7", {"--top-p is 7"});
  refused(2, "sample images --count 0", {"--count", "0"});
  refused(2, "sample images --seed -1", {"--seed", "-1"});
  refused(2, "sample images --dtype fp16", {"--dtype is 'fp16'", "bf16"});
  refused(2, "sample images --dtype tf32", {"--dtype tf32", "--device cuda"});
  refused(2, "sample images --nll-map --dtype bf16", {"--dtype", "--nll-map"});
  refused(6, "sample images --out no/such/folder.png", {"no/such/folder.png", "create the folder"});
  refused(6, "sample images --out .", {"folder"});
  EXPECT_FALSE(exists("grid.png"));
}

TEST_F(Sample, AFullDiskBehindStdoutIsAnError) {
  put_text("text.txt", 2000);
  done(kText + " --steps 1 --out run");
  for (const char* line : {"sample run --tokens 50", "eval run --json", "info run"}) {
    Child child(path(""), words_of(line), 0, "/dev/full");
    check_refusal(child.wait(), 6, line, {"standard output"}, true);
  }
}

TEST_F(Eval, ScoresEveryTokenOfASplitOnce) {
  done(kDigits + " --steps 3 --out digits");
  EXPECT_EQ(score("digits")["tokens"], kDigitsVal * 144);
  if (!kSanitized) {
    EXPECT_EQ(score("digits --split test")["tokens"], 2000 * 144);
  }
  EXPECT_EQ(score("digits"), score("digits --split val"));
  // What training wrote at its end is the same number.
  EXPECT_EQ(score("digits")["loss"],
            metrics("digits").back()[kSanitized ? "val_loss" : "whole_val_loss"]);

  put_text("text.txt", 2005);  // an accent has two bytes: tokens count
  done(kText + " --steps 3 --out text");
  EXPECT_EQ(score("text")["tokens"], 2005 - 2005 * 9 / 10);
  EXPECT_EQ(score("text --split train")["tokens"], 2005 * 9 / 10);

  done(kCopy + " --steps 3 --out copy");
  EXPECT_EQ(score("copy")["tokens"], 1000 * 7);
  const std::string words = done("eval copy").out;
  EXPECT_NE(words.find("7000 tokens"), std::string::npos) << words;
}

TEST_F(Eval, ReadsMnist) {
  const auto put_set = [&](const std::string& name, uint32_t count) {
    std::string pixels, labels;
    for (uint32_t i = 0; i < count; ++i) {
      for (uint32_t pixel = 0; pixel < 784; ++pixel)
        pixels += static_cast<char>(pixel * (i + 1) / 7);
      labels += static_cast<char>(i % 10);
    }
    put("mnist/" + name + "-images-idx3-ubyte", idx_bytes({count, 28, 28}, pixels));
    put("mnist/" + name + "-labels-idx1-ubyte", idx_bytes({count}, labels));
  };
  fs::create_directories(path("mnist"));
  put_set("train", 24);
  put_set("t10k", 7);
  const std::string train =
      "train --task mnist --data mnist --size 14 --levels 4 --steps 2" + kSmall;
  done(train + " --out run");
  EXPECT_EQ(score("run")["tokens"], 2 * 196);
  EXPECT_EQ(score("run --split test")["tokens"], 7 * 196);
  copy("mnist", "elsewhere");
  const nlohmann::json before = score("run");
  remove("mnist");
  refused(3, "eval run", {"mnist"});
  EXPECT_EQ(score("run --data elsewhere"), before);

  const std::string images = "elsewhere/train-images-idx3-ubyte",
                    labels = "elsewhere/train-labels-idx1-ubyte";
  const std::string good = bytes(images), good_labels = bytes(labels);
  const std::string again = "train --task mnist --data elsewhere --steps 2 --out new" + kSmall;
  for (const size_t length :
       {size_t{0}, size_t{3}, size_t{10}, size_t{16}, good.size() / 2, good.size() - 1}) {
    put(images, good.substr(0, length));
    refused(3, again, {images});
  }
  put(images, "\x1f\x8b" + good);  // said to be gzip
  refused(3, again, {images});
  put(images, good + "x");
  refused(3, again, {images});
  put(images, std::string("\x01") + good.substr(1));
  refused(3, again, {images});
  put(images, good);
  put(labels, idx_bytes({23}, std::string(23, '\1')));
  refused(3, again, {"23", "24"});
  put(labels, idx_bytes({24}, std::string(24, '\12')));
  refused(3, again, {labels, "10"});
  put(labels, good_labels);
  remove("elsewhere/t10k-images-idx3-ubyte");
  refused(3, again, {"t10k-images"});
  refused(3, "train --task mnist --data nowhere --steps 2 --out new" + kSmall, {"nowhere"});
  EXPECT_FALSE(exists("new")) << "a run folder for data that cannot be read";
}

TEST_F(Eval, TheModelFileSuffices) {
  put_text("text.txt", 2000);
  const std::string text_file = "run/checkpoints/step-00000003/model.safetensors";
  done(kDigits + " --steps 3 --out run");
  const nlohmann::json digits = score("run");
  EXPECT_EQ(score("run/checkpoints/step-00000003"), digits);
  fs::create_directories(path("far"));
  fs::rename(path(text_file), path("far/digits.bin"));
  remove("run");
  EXPECT_EQ(score("far/digits.bin"), digits);
  done("sample far/digits.bin --count 1 --out x.png");

  done(kText + " --steps 3 --out run");
  const nlohmann::json text = score("run");
  const std::string sampled = done("sample run --prompt ab --tokens 30").out;
  EXPECT_EQ(done("sample run/checkpoints/step-00000003 --prompt ab --tokens 30").out, sampled);
  fs::rename(path(text_file), path("far/model.safetensors"));
  fs::rename(path("text.txt"), path("far/text.txt"));
  remove("run");
  EXPECT_EQ(done("sample far/model.safetensors --prompt ab --tokens 30").out, sampled);
  EXPECT_EQ(done("sample far --prompt ab --tokens 30").out, sampled);
  refused(3, "eval far", {"text.txt"});
  EXPECT_EQ(score("far --data far/text.txt"), text);
  put("other.txt", "only xyz, which the model has never seen");
  refused(3, "eval far --data other.txt", {"other.txt", "'o'"});
}

TEST_F(Eval, RefusesFilesThatAreNoModel) {
  fs::create_directories(path("empty"));
  done(kCopy + " --steps 1 --out run");
  for (const std::string command : {"eval", "sample"}) {
    refused(3, command + " nowhere", {"nowhere", "does not exist"});
    refused(3, command + " empty", {"empty", "no checkpoint"});
    refused(2, command, {"RUN"});
  }
  refused(2, "eval run --split nope", {"nope", "val"});
  put_text("text.txt", 2000);
  done(kText + " --steps 1 --out words");
  refused(2, "eval words --split test", {"no test split", "--split val"});
}

}  // namespace
}  // namespace linea
