// linea sample --complete and --nll-map: what is kept is kept to the bit, and bits are those of
// linea eval.
#include "data/image.h"
#include "data/tasks/image_task.h"
#include "nn/generation.h"
#include "tests/cli/program.h"
#include "tests/data/png_decoder.h"
#include "tests/train/first_rows.h"
#include "train/evaluate.h"
#include "train/run/checkpoint.h"

namespace linea {
namespace {

constexpr int64_t kSide = 12;

class Images : public ProgramTest {
 protected:
  // An image that no digit looks like.
  std::vector<uint8_t> put_image(const std::string& name, int64_t seed) const {
    std::vector<uint8_t> grays;
    for (int64_t i = 0; i < kSide * kSide; ++i)
      grays.push_back(static_cast<uint8_t>((i * i * 7 + seed * i * 31) % 256));
    write_image(name, grays);
    return grays;
  }

  void write_image(const std::string& name, const std::vector<uint8_t>& grays) const {
    ImageGrid grid;
    grid.count = grid.columns = 1;
    grid.height = grid.width = kSide;
    write_png_grid(path(name), grays, grid);
  }

  // The images of a sheet of `columns` in a line, each side x side, below its captions.
  std::vector<std::vector<uint8_t>> cells(const std::string& name, int64_t columns, int64_t lines,
                                          int64_t side = kSide, int64_t channels = 1) const {
    const int64_t scale = 56 / side, cell = side * scale + 1, width = columns * cell - 1;
    const Png sheet = decode_png(read_file(path(name)));
    EXPECT_EQ(sheet.width, width);
    EXPECT_EQ(sheet.channels, channels);
    const int64_t captions = int64_t{sheet.height} - (lines * cell - 1);
    EXPECT_EQ(captions, 13);
    for (int64_t column = 0; column < columns; ++column) {
      bool has_text = false;
      for (int64_t y = 0; y < captions; ++y)
        for (int64_t x = column * cell; x < (column + 1) * cell - 1; ++x)
          has_text |= sheet.bytes[static_cast<size_t>((y * width + x) * channels)] == 230;
      EXPECT_TRUE(has_text) << "column " << column;
    }
    std::vector<std::vector<uint8_t>> result;
    for (int64_t line = 0; line < lines; ++line)
      for (int64_t column = 0; column < columns; ++column) {
        std::vector<uint8_t> image;
        for (int64_t y = 0; y < side; ++y)
          for (int64_t x = 0; x < side; ++x) {
            const int64_t row = captions + line * cell + y * scale;
            const auto first =
                sheet.bytes.begin() + (row * width + column * cell + x * scale) * channels;
            image.insert(image.end(), first, first + channels);
          }
        result.push_back(image);
      }
    return result;
  }

  std::vector<double> numbers_after_colons(const std::string& text) const {
    std::vector<double> numbers;
    for (const std::string& line : lines_of(text))
      if (const size_t at = line.find(": "); at != std::string::npos)
        numbers.push_back(std::stod(line.substr(at + 2)));
    return numbers;
  }
};

using Grays = std::vector<uint8_t>;

TEST_F(Images, CompletionsKeepTheUpperRows) {
  done(kDigits + " --steps 3 --out run");
  std::vector<Grays> originals;
  for (int64_t i = 0; i < 4; ++i) {
    Grays seen;  // in the run's four levels
    for (const uint8_t gray : put_image(fmt::format("{}.png", i), i + 1))
      seen.push_back(token_to_gray(gray_to_token(gray, 4), 4));
    originals.push_back(seen);
  }
  const Outcome outcome =
      done("sample run --complete 0.png 1.png 2.png 3.png --keep-rows 5 --count 2 --out out.png");
  EXPECT_EQ(lines_of(outcome.out).back(), "out.png");
  const std::vector<Grays> shown = cells("out.png", 4, 4);
  const auto kept = 5 * kSide;
  for (size_t i = 0; i < 4; ++i) {
    const Grays* line = &shown[4 * i];
    EXPECT_EQ(line[0], originals[i]);
    for (size_t column = 1; column < 4; ++column)
      EXPECT_EQ(Grays(originals[i].begin(), originals[i].begin() + kept),
                Grays(line[column].begin(), line[column].begin() + kept))
          << i << ' ' << column;
    EXPECT_EQ(Grays(line[1].begin() + kept, line[1].end()),
              Grays(static_cast<size_t>(kSide * kSide - kept), 40));
    EXPECT_NE(line[2], line[3]) << "two completions are sampled independently";
    EXPECT_NE(line[2], line[0]);
  }
  const auto again = [&](const std::string& more) {
    done("sample run --complete 0.png 1.png 2.png 3.png --keep-rows 5 --count 2 --out again.png" +
         more);
    return bytes("again.png") == bytes("out.png");
  };
  EXPECT_TRUE(again(" --seed 1 --threads 1"));
  EXPECT_FALSE(again(" --seed 2"));
}

// The rows below the kept ones are what the generator draws after them.
TEST_F(Images, CompletionsContinueTheGivenRows) {
  done(kDigits + " --steps 150 --lr 0.01 --warmup 0 --out run");
  done(
      "sample run --complete test:0 test:1 test:2 test:3 --keep-rows 6 --count 2 --seed 7 --out "
      "out.png");
  const std::vector<Grays> shown = cells("out.png", 4, 4);
  const SavedModel saved = load_model(path("run"));
  const Batch test = make_task(task_options(saved.config, ""))->eval_batch(Split::test, 0, 4);
  std::vector<std::vector<int32_t>> prompts;
  for (int64_t row = 0; row < 8; ++row) {
    const auto first = test.inputs.begin() + row / 2 * kSide * kSide;
    prompts.emplace_back(first, first + 1 + 6 * kSide);
  }
  SamplingOptions options;
  options.seed = 7;
  const auto sampled = sample_tokens(*saved.model, options, prompts, 6 * kSide);
  for (size_t row = 0; row < 8; ++row) {
    const Grays& image = shown[4 * (row / 2) + 2 + row % 2];
    Grays expected;
    for (const int32_t token : sampled[row]) expected.push_back(token_to_gray(token, 4));
    EXPECT_EQ(Grays(image.begin() + 6 * kSide, image.end()), expected) << row;
  }
}

TEST_F(Images, CompletionsOfAClass) {
  done(kDigits + " --class-token --steps 300 --lr 0.02 --warmup 0 --out run");
  put_image("a.png", 1);
  refused(2, "sample run --complete a.png", {"a.png", "--class", "0 to 9"});
  done("sample run --complete a.png --class 3 --keep-rows 1 --count 16 --out a3.png");
  done("sample run --complete a.png --class 8 --keep-rows 1 --count 16 --out a8.png");
  EXPECT_NE(bytes("a3.png"), bytes("a8.png"));
  done("sample run --complete test:0 --out own.png");  // an image of the data has its own class
  EXPECT_EQ(parse_json(done("eval run --json").out)["tokens"], kDigitsVal * kSide * kSide);
  refused(2, "sample run --complete a.png --class 10", {"--class", "10", "9"});
}

TEST_F(Images, WithSkippedBlanksAreScoredAndCompleted) {
  done(kDigits20000 + " --skip-blank --class-token --layer-convolution 2d --steps 20 --out run");
  const std::vector<double> shown =
      numbers_after_colons(done("sample run --nll-map --count 3 --out heat.png").out);
  ASSERT_EQ(shown.size(), 4u);
  const SavedModel saved = load_model(path("run"));
  const std::unique_ptr<Task> task = make_task(task_options(saved.config, ""));
  EXPECT_NEAR(shown[3], evaluate(*saved.model, FirstRows(*task, 3), Split::test, 2).bits, 1e-4);
  const std::string complete = "sample run --complete test:0 --keep-rows 6 --out ";
  done(complete + "once.png");
  done(complete + "again.png");
  EXPECT_EQ(bytes("once.png"), bytes("again.png"));
  refused(3, "sample run --complete nosuch.png --out no.png", {"nosuch.png", "no such file"});
  refused(2, "sample run --complete --out no.png", {"--complete needs an image before --out"});
  refused(2, kDigits + " --skip-blank --attention axial --out no", {"without --skip-blank"});
  refused(2, kDigits + " --skip-blank --predict class --rule gated --out no", {"predicts a class"});
  refused(2, "bench train --preset digits-demo --skip-blank", {"--skip-blank", "random"});
  done(kDigits + " --steps 1 --out plain");
  refused(2, "train --init-from plain --skip-blank --steps 1 --out no", {"cannot change"});
}

TEST_F(Images, NllMapMatchesEval) {
  done(kDigits20000 +
       " --class-token --output-head logistics --steps 60 --lr 0.02 --warmup 0 --out run");
  const Outcome outcome = done("sample run --nll-map --count 3 --out heat.png");
  EXPECT_EQ(lines_of(outcome.out).back(), "heat.png");
  const std::vector<double> shown = numbers_after_colons(outcome.out);
  ASSERT_EQ(shown.size(), 4u) << outcome.out;
  const SavedModel saved = load_model(path("run"));
  const std::unique_ptr<Task> task = make_task(task_options(saved.config, ""));
  const auto bits_of_first = [&](int64_t rows) {
    return evaluate(*saved.model, FirstRows(*task, rows), Split::test, saved.config.batch).bits;
  };
  EXPECT_NEAR(shown[3], bits_of_first(3), 1e-4);
  EXPECT_NEAR(shown[0], bits_of_first(1), 1e-4);
  EXPECT_NE(shown[0], shown[1]);
  // named, they are the same images
  const std::string named =
      done("sample run --nll-map --complete test:0 test:1 test:2 --out x.png").out;
  EXPECT_EQ(numbers_after_colons(named), shown);
  EXPECT_EQ(bytes("x.png"), bytes("heat.png"));
  // and in a file too, where it is said of which class they are
  const Batch first = task->eval_batch(Split::test, 0, 1);
  Grays grays;
  for (const int32_t token : first.targets) grays.push_back(token_to_gray(token, 4));
  write_image("first.png", grays);
  const auto of_class = [&](int64_t label) {
    const std::string line =
        fmt::format("sample run --nll-map --complete first.png --class {} --out x.png", label);
    return numbers_after_colons(done(line).out).front();
  };
  const int64_t label = first.inputs[0] - saved.shape.start;
  EXPECT_EQ(of_class(label), shown[0]);
  EXPECT_NE(of_class((label + 1) % 10), shown[0]);
}

// Three tokens a pixel: rows are kept whole, in their colors, and each color has its map of
// bits.
TEST_F(Images, ColorImages) {
  std::string records;
  for (int image = 0; image < 12; ++image) {
    records += static_cast<char>(image % 10);
    for (int i = 0; i < 3072; ++i) records += static_cast<char>((i * (image + 1) / 5) % 256);
  }
  fs::create_directories(path("cifar"));
  put("cifar/data_batch_1.bin", records);
  put("cifar/data_batch_2.bin", records);
  put("cifar/test_batch.bin", records);
  done("train --task cifar10 --data cifar --size 8 --steps 2 --output-head logistics --out run" +
       kSmall);
  done("sample run --complete test:0 test:7 test:5 --keep-rows 5 --count 1 --out out.png");
  SavedModel saved = load_model(path("run"));
  set_data(saved.config, path("cifar"));  // it was said from inside the folder
  ASSERT_EQ(saved.shape.channels, 3);
  const Batch test = make_task(task_options(saved.config, ""))->eval_batch(Split::test, 0, 8);
  const std::vector<Grays> shown = cells("out.png", 3, 3, 8, 3);
  const int64_t kept = 5 * 8 * 3, all = 8 * 8 * 3, numbers[] = {0, 7, 5};
  for (size_t i = 0; i < 3; ++i) {
    const auto first = test.targets.begin() + numbers[i] * all;
    EXPECT_EQ(shown[3 * i], Grays(first, first + all)) << "256 levels are the bytes themselves";
    for (size_t column = 3 * i + 1; column < 3 * i + 3; ++column)
      EXPECT_EQ(Grays(shown[column].begin(), shown[column].begin() + kept),
                Grays(first, first + kept))
          << column;
  }
  const std::vector<double> bits =
      numbers_after_colons(done("sample run --nll-map --count 4 --out heat.png").out);
  const std::unique_ptr<Task> task = make_task(task_options(saved.config, ""));
  ASSERT_EQ(bits.size(), 5u);
  EXPECT_NEAR(bits[4],
              evaluate(*saved.model, FirstRows(*task, 4), Split::test, saved.config.batch).bits,
              1e-4);
}

// Each pixel of an image is N x N pixels of the sheet.
TEST_F(Images, ScalesTheSheet) {
  done(kDigits + " --steps 3 --out run");
  const auto sheet = [&](const std::string& more) {
    done("sample run --out x.png " + more);
    return decode_png(bytes("x.png"));
  };
  const Png one = sheet("--count 2 --scale 1"), three = sheet("--count 2 --scale 3");
  EXPECT_EQ(one.width, 2 * 12 + 1u);
  EXPECT_EQ(one.height, 12u);
  EXPECT_EQ(three.width, 2 * 36 + 1u);
  EXPECT_EQ(three.height, 36u);
  for (size_t y = 0; y < 36; ++y)
    for (size_t x = 0; x < 36; ++x)
      ASSERT_EQ(three.bytes[y * three.width + x], one.bytes[y / 3 * one.width + x / 3]);
  EXPECT_EQ(sheet("--complete test:0 --count 1 --scale 20").width, 3 * 240 + 2u);
  EXPECT_EQ(sheet("--nll-map --complete test:0 --scale 20").width, 2 * 240 + 1u);
  for (const char* scale : {"0", "-1", "257"})
    refused(2, fmt::format("sample run --scale {}", scale),
            {fmt::format("--scale is {}", scale), "1 to 256"});
  refused(2, "sample run --scale 256 --count 80", {"lower --count or --scale"});
  refused(2, "sample run --scale x", {"--scale", "x"});
}

// 20 images, two of them for tests: without --count all that there are, of more at most eight.
TEST_F(Images, NllMapOfFewImages) {
  fs::create_directories(path("few"));
  for (int64_t i = 0; i < 20; ++i) put_image(fmt::format("few/{:02}.png", i), i + 1);
  done("train --task images --data few --channels 1 --size 12 --levels 4 --steps 1 --out run" +
       kSmall);
  const Outcome outcome = done("sample run --nll-map --out heat.png");
  EXPECT_NE(outcome.out.find("mean of 2:"), std::string::npos) << outcome.out;
  refused(2, "sample run --nll-map --count 3 --out x.png", {"test:2", "0 to 1"});
  done(kDigits + " --steps 1 --out digits");
  EXPECT_NE(done("sample digits --nll-map --out heat.png").out.find("mean of 8:"),
            std::string::npos);
}

TEST_F(Images, RefuseInapplicableOptions) {
  done(kDigits + " --steps 1 --out run");
  put_image("a.png", 1);
  put("text.png", "no image");
  for (const char* rows : {"0", "12", "-1"})
    refused(2, fmt::format("sample run --complete a.png --keep-rows {}", rows),
            {"--keep-rows", rows, "11", "12"});
  refused(2, "sample run --complete a.png --count 0", {"--count", "0"});
  refused(2, "sample run --nll-map --count 0", {"--count", "0"});
  refused(3, "sample run --complete nowhere.png", {"nowhere.png"});
  refused(3, "sample run --complete text.png", {"text.png"});
  refused(2, "sample run --complete test:2000", {"test:2000", "0 to 1999"});
  refused(2, "sample run --complete a.png --class 3", {"--class 3", "--class-token"});
  refused(2, "sample run --keep-rows 3", {"--keep-rows", "without --complete"});
  refused(2, "sample run --nll-map --temperature 0.5", {"--temperature", "--nll-map"});
  refused(2, "sample run --nll-map --complete a.png --keep-rows 3", {"--keep-rows", "--nll-map"});
  refused(2, "sample run --nll-map --complete a.png --count 3", {"--count"});
  refused(2, "sample run --data elsewhere", {"--data"});
  refused(6, "sample run --complete a.png --out no/such/folder.png", {"no/such/folder.png"});
  refused(2, "sample run --top-p 0", {"--top-p is 0"});
  refused(2, "sample run --top-p 1.5", {"--top-p is 1.5"});
  refused(2, "sample run --top-k -1", {"--top-k is -1"});
  put_text("text.txt", 2000);
  done(kText + " --steps 1 --out text");
  refused(2, "sample text --complete a.png", {"--complete", "text"});
  refused(2, "sample text --nll-map", {"--nll-map", "text"});
}

}  // namespace
}  // namespace linea
