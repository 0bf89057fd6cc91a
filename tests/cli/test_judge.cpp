// linea judge: what it prints of runs of images and of text, and what it refuses.
#include "tests/cli/program.h"

#include "data/image.h"
#include "tests/data/png_decoder.h"

namespace linea {
namespace {

class Judge : public ProgramTest {
 protected:
  // The classifier is kept here, not in the user's folder.
  void SetUp() override { setenv("XDG_CACHE_HOME", path("cache").c_str(), 1); }

  nlohmann::json judged(const std::string& arguments) const {
    const Outcome outcome = done("judge --json " + arguments);
    EXPECT_EQ(lines_of(outcome.out).size(), 1u) << outcome.out;
    return parse_json(outcome.out);
  }
};

TEST_F(Judge, JudgesDigitsByClass) {
  // The classifier knows the class of every image, also where the run drops some.
  done(kDigits20000 +
       " --class-token --class-embedding every --class-dropout 0.3 --steps 3 --out run");
  const std::string arguments = "run --count 30 --guidance 2 --out sheet.png";
  const nlohmann::json result = judged(arguments);
  EXPECT_EQ(result["step"], 3);
  EXPECT_EQ(result["count"], 30);
  EXPECT_EQ(result["features"], "the classifier's units");
  EXPECT_GT(result["classifier"]["accuracy"], 0.9);
  EXPECT_EQ(result["classifier"]["sha256"].get<std::string>().size(), 64u);
  for (const char* key : {"sure", "classes", "frechet"})
    for (const char* of : {"samples", "real"}) EXPECT_TRUE(result[key][of].is_number()) << result;
  EXPECT_NEAR(result["relatively_sure"],
              result["sure"]["samples"].get<double>() / result["sure"]["real"].get<double>(),
              1e-12);
  EXPECT_LE(result["right"], 1.0);
  EXPECT_GT(result["classes"]["real"], 9);
  EXPECT_GT(result["frechet"]["samples"], result["frechet"]["real"]);
  EXPECT_GT(result["nearest"]["median"]["samples"], result["nearest"]["min"]["samples"]);
  EXPECT_EQ(bytes("sheet.png").substr(0, 4), "\x89PNG");

  const Outcome again = done("judge --json --threads 1 " + arguments);
  EXPECT_EQ(parse_json(again.out), result);
  EXPECT_EQ(again.err.find("classifier"), std::string::npos) << "trained once:\n" << again.err;
  const std::string table = done("judge " + arguments).out;
  for (const char* part : {"sure", "right", "classes", "Fréchet", "nearest", "sheet.png",
                           "30 samples of step 3", "nearest of 30 test images"})
    EXPECT_NE(table.find(part), std::string::npos) << part << " is not in:\n" << table;
  for (const char* part : {"no classes", "weak"})
    EXPECT_EQ(table.find(part), std::string::npos) << table;
  EXPECT_NE(judged("run --count 30 --out sheet.png --seed 2"), result);
}

// What training records is what the command says of the same step.
TEST_F(Judge, JudgesDuringTraining) {
  done(kDigits + " --class-token --steps 4 --sample-every 2 --judge-samples 20 --out run");
  std::vector<nlohmann::json> records;
  for (const nlohmann::json& line : metrics("run"))
    if (line.contains("judge_right")) records.push_back(line);
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(records[0]["step"], 2);
  const nlohmann::json expected = judged("run --count 20");
  EXPECT_EQ(records[1]["step"], 4);
  EXPECT_EQ(records[1]["judge_sure"], expected["relatively_sure"]);
  EXPECT_EQ(records[1]["judge_right"], expected["right"]);
  EXPECT_EQ(records[1]["judge_classes"], expected["classes"]["samples"]);
  EXPECT_EQ(records[1]["judge_frechet"], expected["frechet"]["samples"]);
  EXPECT_EQ(records[1]["judge_frechet_real"], expected["frechet"]["real"]);
  EXPECT_EQ(records[1]["judge_nearest"], expected["nearest"]["min"]["samples"]);
  EXPECT_EQ(records[1]["judge_nearest_real"], expected["nearest"]["min"]["real"]);
  EXPECT_EQ(records[1]["judge_copies"], expected["nearest"]["copies"]);

  // The classifier of the data also judges a model that knows no class, of which none is asked.
  done(kDigits + " --steps 3 --out classless");
  const nlohmann::json classless = judged("classless --count 2");
  EXPECT_EQ(classless["classifier"], expected["classifier"]);
  EXPECT_TRUE(classless["right"].is_null()) << classless;
  EXPECT_GE(classless["sure"]["samples"], 0);
  EXPECT_FALSE(exists("classless/copies.png"));

  put_text("text.txt", 1000);
  done(kText + " --steps 2 --judge-samples 3 --out text");
  const nlohmann::json of_text = judged("text --count 3");
  const nlohmann::json last = metrics("text").back();
  EXPECT_EQ(last["judge_copied_run"], of_text["copied_run"]);
  EXPECT_EQ(last["judge_copied_run_real"], of_text["validation_run"]);
  EXPECT_EQ(last["judge_known_words"], of_text["samples"]["known"]);
  EXPECT_EQ(last["judge_known_words_real"], of_text["validation"]["known"]);
  refused(2, "train --task copy --length 8" + kSmall + " --judge-samples 5 --out copy",
          {"--judge-samples", "images or text"});
}

// Whether the frame of each image of a sheet is orange, and its middle pixel, by number.
struct Shown {
  bool marked;
  int middle;
};
std::vector<Shown> shown_in(const std::string& png_bytes) {
  const Png png = decode_png(png_bytes);
  EXPECT_EQ(png.channels, 3);
  constexpr size_t kWidth = 7 * 7 + 2 * 3, kCell = kWidth + 1, kCaption = 13;  // 7 x 7, scale 7
  std::vector<Shown> images;
  const auto pixel = [&](size_t row, size_t column) {
    return &png.bytes[3 * (row * png.width + column)];
  };
  for (size_t top = kCaption; top < png.height; top += kCell)
    for (size_t left = 0; left < png.width; left += kCell) {
      const uint8_t* frame = pixel(top + 1, left + 1);
      images.push_back({frame[0] == 213 && frame[1] == 94 && frame[2] == 0,
                        pixel(top + kWidth / 2, left + kWidth / 2)[0]});
    }
  return images;
}

// Black training images, which a model learns at once, and gray test images.
TEST_F(Judge, ShowsEveryCopy) {
  fs::create_directory(path("images"));
  for (int i = 0; i < 60; ++i)
    write_png_grid(path(fmt::format("images/{:02}.png", i)),
                   std::vector<uint8_t>(49, static_cast<uint8_t>(i % 10 == 9 ? 100 + i : 0)),
                   {.count = 1, .height = 7, .width = 7});
  done("train --task images --data images --size 7 --channels 1 --levels 256" + kSmall +
       " --steps 60 --lr 0.01 --out run");
  for (const auto& [count, sheet] : {std::pair{16, "run/copies.png"}, {30, "run/copies-2.png"}}) {
    const nlohmann::json result = judged(fmt::format("run --count {} --temperature 0.1", count));
    EXPECT_EQ(result["nearest"]["copies"], count) << result;
    EXPECT_EQ(result["sheet"], sheet);
    const std::vector<Shown> images = shown_in(bytes(sheet));
    const auto marked =
        std::count_if(images.begin(), images.end(), [](Shown one) { return one.marked; });
    EXPECT_EQ(marked, 2 * count);
  }
  EXPECT_FALSE(exists("copies.png"));
  const std::string file = "run/checkpoints/step-00000060";
  EXPECT_EQ(judged(file + " --count 2 --temperature 0.1")["sheet"], "run/copies-3.png");
  EXPECT_NE(done("judge run --count 2 --temperature 0.1").out.find("orange"), std::string::npos);
}

// All samples of the black class are nearer to their training images than any of the other, whose
// images are white with black dots at other places each, but not in the middle.
TEST_F(Judge, ShowsOneSampleOfEachClass) {
  for (const std::string name : {"black", "white"}) {
    fs::create_directories(path("images/" + name));
    for (size_t i = 0; i < 30; ++i) {
      std::vector<uint8_t> pixels(49, 0);
      for (size_t j = 0; j < pixels.size() && name == "white"; ++j)
        pixels[j] = j == 24 || (i * 37 + j * j * 11) % 7 != 0 ? 255 : 0;
      write_png_grid(path(fmt::format("images/{}/{}.png", name, i)), pixels,
                     {.count = 1, .height = 7, .width = 7});
    }
  }
  done("train --task images --data images --size 7 --channels 1 --levels 2 --class-token" + kSmall +
       " --steps 60 --lr 0.01 --out run");
  judged("run --count 60 --temperature 0.1 --out sheet.png");
  const std::vector<Shown> images = shown_in(bytes("sheet.png"));
  ASSERT_EQ(images.size(), 32u);
  EXPECT_EQ(images[0].middle, 0);
  EXPECT_EQ(images[2].middle, 255) << "the nearest sample of the second class";
  EXPECT_EQ(images[4].middle, 0);
}

// Real images in the proportions of the samples, the classes in turn, are what the floor is made
// of, however rare a class is in the data.
TEST_F(Judge, ComparesClassesInEqualShares) {
  for (const auto& [name, gray, count] : {std::tuple{"black", 0, 90}, {"white", 255, 30}}) {
    fs::create_directories(path(std::string("images/") + name));
    for (int i = 0; i < count; ++i)
      write_png_grid(path(fmt::format("images/{}/{}.png", name, i)),
                     std::vector<uint8_t>(49, static_cast<uint8_t>(gray)),
                     {.count = 1, .height = 7, .width = 7});
  }
  done("train --task images --data images --size 7 --channels 1 --levels 2 --class-token" + kSmall +
       " --steps 100 --lr 0.01 --out run");
  const nlohmann::json result = judged("run --count 40 --temperature 0.1");
  EXPECT_EQ(result["right"], 1.0) << result;
  EXPECT_NEAR(result["classes"]["real"], 2, 0.01);
  const double samples = result["frechet"]["samples"], floor = result["frechet"]["real"];
  EXPECT_NEAR(samples, floor, 0.01 * std::max(1.0, floor)) << result;
}

// Where no test image has the first classes, real images are those of any class.
TEST_F(Judge, TakesOtherClassesWhereTheFirstHaveNoTestImage) {
  for (const auto& [name, count] : {std::pair{"a", 5}, {"b", 3}, {"c", 50}}) {
    fs::create_directories(path(std::string("images/") + name));
    for (int i = 0; i < count; ++i)
      write_png_grid(path(fmt::format("images/{}/{}.png", name, i)),
                     std::vector<uint8_t>(49, static_cast<uint8_t>(i)),
                     {.count = 1, .height = 7, .width = 7});
  }
  done("train --task images --data images --size 7 --channels 1 --class-token" + kSmall +
       " --steps 2 --out run");
  EXPECT_EQ(judged("run --count 2")["count"], 2);
}

// Two classes, black and white, which a model learns at once.
TEST_F(Judge, AsksForTheClassesInTurn) {
  for (const auto& [name, gray] : {std::pair{"black", 0}, {"white", 255}}) {
    fs::create_directories(path(std::string("images/") + name));
    for (int i = 0; i < 30; ++i)
      write_png_grid(path(fmt::format("images/{}/{}.png", name, i)),
                     std::vector<uint8_t>(49, static_cast<uint8_t>(gray)),
                     {.count = 1, .height = 7, .width = 7});
  }
  done("train --task images --data images --size 7 --channels 1 --levels 2 --class-token" + kSmall +
       " --steps 60 --lr 0.01 --out run");
  const nlohmann::json result = judged("run --count 10 --temperature 0.1");
  EXPECT_EQ(result["right"], 1.0) << result;
  EXPECT_NEAR(result["classes"]["samples"], 2, 0.01);
  EXPECT_NEAR(result["frechet"]["samples"], result["frechet"]["real"], 1);
}

// Two classes with the same images, which nothing can tell apart.
TEST_F(Judge, CallsAClassifierWeak) {
  for (const std::string name : {"one", "other"}) {
    fs::create_directories(path("images/" + name));
    for (size_t i = 0; i < 30; ++i) {
      std::vector<uint8_t> pixels(49);
      for (size_t j = 0; j < pixels.size(); ++j)
        pixels[j] = static_cast<uint8_t>((i * 37 + j * j * 11) % 256);
      write_png_grid(path(fmt::format("images/{}/{}.png", name, i)), pixels,
                     {.count = 1, .height = 7, .width = 7});
    }
  }
  done("train --task images --data images --size 7 --channels 1 --levels 4 --class-token" + kSmall +
       " --steps 2 --out run");
  const std::string table = done("judge run --count 2").out;
  EXPECT_NE(table.find("% of the test images right, a weak judge\n"), std::string::npos) << table;
  EXPECT_LT(judged("run --count 2")["classifier"]["accuracy"], 0.9);
}

// A folder that is no folder of classes: no classifier.
TEST_F(Judge, JudgesImagesWithoutClasses) {
  fs::create_directory(path("images"));
  for (int i = 0; i < 40; ++i) {
    std::vector<uint8_t> pixels(36);
    for (size_t j = 0; j < pixels.size(); ++j)
      pixels[j] = static_cast<uint8_t>((static_cast<size_t>(i) * 37 + j * j * 11) % 256);
    write_png_grid(path(fmt::format("images/{}.png", i)), pixels,
                   {.count = 1, .height = 6, .width = 6});
  }
  done("train --task images --data images --size 6 --channels 1 --levels 4" + kSmall +
       " --steps 2 --out run");
  const nlohmann::json result = judged("run --count 3");
  EXPECT_FALSE(result.contains("classifier")) << result;
  EXPECT_GT(result["frechet"]["samples"], 0);
  EXPECT_GT(result["nearest"]["median"]["samples"], 0);
  EXPECT_EQ(result["features"], "8 x 8 means");
  const std::string table = done("judge run --count 3").out;
  EXPECT_NE(table.find("8 x 8 means"), std::string::npos);
  EXPECT_NE(table.find("\nno classes: no classifier; sure, right and classes are not measured\n"),
            std::string::npos)
      << table;
  EXPECT_NE(table.find("nearer than the nearest of 3 test images"), std::string::npos) << table;
  EXPECT_FALSE(exists("cache"));
}

TEST_F(Judge, JudgesText) {
  put_text("text.txt", 3000);
  done(kText + " --steps 3 --out run");
  const nlohmann::json result = judged("run --count 4 --tokens 50");
  EXPECT_EQ(result["tokens"], 50);
  EXPECT_GT(result["copied_run"], 0);
  EXPECT_GT(result["validation_run"], 0);
  EXPECT_LE(result["validation"]["known"], 1.0);
  EXPECT_NE(bytes("text.txt").find(result["copied"].get<std::string>()), std::string::npos);
  EXPECT_EQ(judged("run --count 4 --tokens 50 --threads 1"), result);
  const std::string table = done("judge run --count 4 --tokens 50").out;
  for (const char* part : {"known words", "longest copy", "copied: "})
    EXPECT_NE(table.find(part), std::string::npos) << table;
}

TEST_F(Judge, RefusesWhatCannotBeJudged) {
  done(kCopy + " --steps 1 --out copy");
  refused(2, "judge copy", {"copy", "linea eval"});
  done(kDigits + " --steps 1 --out run");
  refused(2, "judge run --count 1", {"--count", "1", "2"});
  refused(2, "judge nowhere --count 1000000000000", {"--count", "1000000000000", "100000"});
  refused(2, "judge nowhere --count 1000 --tokens 1000000", {"--tokens", "1000000", "100000"});
  refused(2, kDigits + " --steps 1 --judge-samples 100001 --out other", {"--judge-samples"});
  refused(2, "judge run --tokens 5", {"--tokens", "images"});
  refused(2, "judge run --out x.jpg", {"x.jpg", ".png"});
  refused(2, "judge run --temperature 0", {"temperature"});
  refused(2, "judge run --seed -1", {"--seed"});
  refused(2, "judge run --data x", {"digits"});
  refused(3, "judge nowhere", {"nowhere"});
  put_text("text.txt", 1000);
  done(kText + " --steps 1 --out text");
  refused(2, "judge text --out x.png", {"--out", "text"});
  refused(2, "judge text --count 0", {"--count"});
  refused(2, "judge text --tokens 0", {"--tokens"});
  remove("text.txt");
  refused(3, "judge text", {"text.txt"});
  refused(6, "judge run --count 2 --out nowhere/x.png", {"nowhere/x.png"});
}

}  // namespace
}  // namespace linea
