// linea data, and the tasks that read files, from the command line.
#include "data/image.h"
#include "tests/cli/program.h"
#include "tests/data/readers/png_bytes.h"

namespace linea {
namespace {

class DataCommand : public ProgramTest {
 protected:
  // Runs with a stand-in for curl first in PATH.
  Outcome with_curl(const std::string& script, const std::string& line) const {
    fs::create_directories(path("bin"));
    put("bin/curl", "#!/bin/sh\n" + script);
    fs::permissions(path("bin/curl"), fs::perms::owner_all);
    const std::string old_path = std::getenv("PATH");
    setenv("PATH", (path("bin") + ":" + old_path).c_str(), 1);
    const Outcome outcome = linea(line);
    setenv("PATH", old_path.c_str(), 1);
    return outcome;
  }

  // Images of two classes: dark ones, light ones.
  void put_images(const std::string& folder, int of_each) const {
    for (const char* name : {"dark", "light"}) {
      fs::create_directories(path(folder + "/" + name));
      const bool light = std::string(name) == "light";
      for (int i = 0; i < of_each; ++i)
        put(fmt::format("{}/{}/{:03}.png", folder, name, i),
            png_bytes(2, 2, 8, 2,
                      {std::string(6, static_cast<char>(light ? 250 - i : i)),
                       std::string(6, static_cast<char>(light ? 200 : 40))}));
    }
  }
};

TEST_F(DataCommand, ListsWithChecksumsAndAddresses) {
  const std::string all = done("data list").out;
  const Words listed = lines_of(all);  // of a set the first begins with its name
  EXPECT_EQ(std::count_if(listed.begin(), listed.end(),
                          [](const std::string& line) { return line[0] != ' '; }),
            5)
      << all;
  for (const char* part : {"mnist ", "162.2 MiB  --task cifar10", "text8"})
    EXPECT_NE(all.find(part), std::string::npos) << part << "\n" << all;
  std::string list;
  for (const char* name : {"mnist", "cifar10", "text8"})
    list += done(fmt::format("data list {}", name)).out;
  for (const char* part :
       {"mnist", "cifar-10-binary.tar.gz  170052171 bytes", "https://mattmahoney.net/dc/text8.zip",
        "sha256 c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd", "not published"})
    EXPECT_NE(list.find(part), std::string::npos) << part << "\n" << list;
  EXPECT_EQ(json_lines(done("data list mnist --json").out).size(), 4u);
  refused(2, "data list mnits", {"'mnits'", "mnist, cifar10"});
  const auto lines = json_lines(done("data list --json").out);
  ASSERT_EQ(lines.size(), 8u);
  EXPECT_EQ(lines[0]["file"], "train-images-idx3-ubyte.gz");
  EXPECT_EQ(lines[5]["bytes"], 1115394);
}

TEST_F(DataCommand, VerifiesAFolder) {
  fs::create_directories(path("set"));
  put("set/input.txt", "to be or not to be");
  const Outcome outcome = linea("data verify set");
  check_refusal(outcome, 3, "verify", {"set", "1 of 1 files"});
  EXPECT_NE(outcome.out.find("differs (sha256): found " + hash_file(path("set/input.txt"))),
            std::string::npos)
      << outcome.out;
  const auto line = json_lines(linea("data verify set --json").out).at(0);
  EXPECT_EQ(line["state"], "differs");
  EXPECT_EQ(line["expected"], "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed");
  EXPECT_EQ(line["found"], hash_file(path("set/input.txt")));
  put("set/t10k-labels-idx1-ubyte", "");
  EXPECT_EQ(json_lines(linea("data verify set --json").out).size(), 5u);
  refused(3, "data verify nowhere", {"nowhere", "not a folder"});
  fs::create_directories(path("empty"));
  refused(3, "data verify empty", {"empty", "has no file of mnist"});
}

TEST_F(DataCommand, WithoutANetworkItNamesTheFilesToFetch) {
  const Outcome outcome = with_curl("exit 6", "data get tinyshakespeare --out set");
  check_refusal(
      outcome, 3, "get",
      {"https://raw.githubusercontent.com/", "1115394 bytes",
       "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed", "put it into set"},
      true);
  EXPECT_FALSE(exists("set"));
  check_refusal(with_curl("exit 6", "data get tinyshakespeare --out new/deep/set"), 3, "deep",
                {"by hand"}, true);
  EXPECT_FALSE(exists("new"));
  fs::create_directories(path("mine"));
  check_refusal(with_curl("exit 6", "data get tinyshakespeare --out mine/set"), 3, "mine",
                {"by hand"}, true);
  EXPECT_TRUE(names_in("mine").empty());
}

TEST_F(DataCommand, DownloadsAreVerifiedBeforeTheyAreRenamed) {
  const std::string script =
      "while [ $# -gt 1 ]; do [ \"$1\" = --output ] && echo other > \"$2\"; shift; done";
  const Outcome outcome = with_curl(script, "data get tinyshakespeare --out set");
  check_refusal(outcome, 3, "get", {"the download has sha256 " + hash_bytes("other\n"), "by hand"},
                true);
  EXPECT_FALSE(exists("set"));
  put("file", "");
  check_refusal(with_curl(script, "data get tinyshakespeare --out file/set"), 6, "get", {"file"},
                true);
  refused(2, "data get mnits", {"'mnits'", "mnist, cifar10"});
  refused(2, "data", {"subcommand"});
}

TEST_F(DataCommand, ImagesTrainSampleAndEvaluate) {
  put_images("images", 10);
  const std::string train =
      "train --task images --data images --size 2 --class-token --flip --steps 2" + kSmall;
  done(train + " --out run");
  EXPECT_NE(bytes("run/config.toml").find("channels = 3"), std::string::npos);
  const std::string info = done("info run").out;
  EXPECT_NE(info.find("tokens      256, length 12\nclasses     0 dark, 1 light\n"),
            std::string::npos)
      << info;
  EXPECT_EQ(json_lines(done("info run --json").out)[0]["classes"],
            nlohmann::json({"dark", "light"}));
  done("sample run --count 4 --class 1 --out grid.png");
  done("sample run --count 4 --class 0 --out dark.png");
  const Outcome named = done("sample run --count 4 --class light --out named.png");
  EXPECT_NE(named.err.find("4 images of class 1 (light) of step 2"), std::string::npos)
      << named.err;
  EXPECT_EQ(bytes("named.png"), bytes("grid.png"));
  EXPECT_NE(bytes("named.png"), bytes("dark.png"));
  for (const char* name : {"2", "-1", "dar", "1x"})
    refused(2, fmt::format("sample run --class {}", name),
            {fmt::format("--class is {};", name), "0 to 1: 0 dark, 1 light"});
  done("eval run --split test");
  done("train --resume run --steps 3");
  done("train --config run/config.toml --out again");
  // Other classes mean other labels.
  fs::rename(path("images/light"), path("images/bright"));
  refused(3, "train --resume run --steps 4", {"dark", "bright", "light"}, true);
  refused(3, "eval run", {"'bright'", "dark, light"});
}

// A name that looks like a number is a name first.
TEST_F(DataCommand, ClassesMayBeNumbers) {
  put_images("images", 10);
  fs::rename(path("images/dark"), path("images/1"));
  fs::rename(path("images/light"), path("images/2"));
  done("train --task images --data images --size 2 --class-token --steps 2" + kSmall +
       " --out run");
  EXPECT_NE(done("sample run --count 1 --class 1 --out a.png").err.find("class 0 (1)"),
            std::string::npos);
  EXPECT_NE(done("sample run --count 1 --class 0 --out b.png").err.find("class 0 (1)"),
            std::string::npos);
}

TEST_F(DataCommand, FoldersOfSplitsAreSplits) {
  put_images("images/train", 10);
  put_images("images/val", 2);
  const std::string train =
      "train --task images --data images --size 2 --class-token --steps 2" + kSmall + " --out ";
  const std::string err = done(train + "run").err;
  EXPECT_NE(err.find("images: the splits are its folders: train, val, no test\n"),
            std::string::npos)
      << err;
  EXPECT_NE(err.find("classes: 0 dark, 1 light\n"), std::string::npos) << err;
  const auto tokens = [&](const std::string& split) {
    return json_lines(done("eval run --json --split " + split).out)[0]["tokens"];
  };
  EXPECT_EQ(tokens("train"), 20 * 12);
  EXPECT_EQ(tokens("val"), 4 * 12);
  refused(2, "eval run --split test", {"--data", "no test split", "a folder test"}, true);
  refused(2, "sample run --complete test:0 --out x.png", {"no test split"});
  refused(2, "sample run --nll-map --out x.png", {"no test split"});
  refused(2, "judge run --count 2", {"no test split"}, true);
  put_images("images/test", 3);
  EXPECT_EQ(tokens("test"), 6 * 12);
  // A run of the images in other splits.
  fs::create_directories(path("other"));
  for (const char* name : {"dark", "light"})
    fs::rename(path(fmt::format("images/train/{}", name)), path(fmt::format("other/{}", name)));
  done("train --task images --data other --size 2 --class-token --steps 2" + kSmall + " --out old");
  fs::create_directories(path("other/train"));
  for (const char* name : {"dark", "light"})
    fs::rename(path(fmt::format("other/{}", name)), path(fmt::format("other/train/{}", name)));
  refused(3, "train --resume old --steps 3", {"other data", "SHA-256"}, true);
}

TEST_F(DataCommand, AClassThatIsNotUtf8IsNamed) {
  put_images("images", 10);
  fs::rename(path("images/dark"), path("images/caf\xE9"));
  refused(
      3,
      "train --task images --data images --size 2 --class-token --steps 1" + kSmall + " --out run",
      {"images", "'caf\\xE9'", "not UTF-8", "rename it"});
}

TEST_F(DataCommand, BadImagesAreNamedOnStderr) {
  put_images("images", 60);
  put("images/dark/000.png", "no image");
  const Outcome outcome = done("train --task images --data images --size 2 --channels 1 --steps 1" +
                               kSmall + " --out run");
  EXPECT_NE(outcome.err.find("skipped: images/dark/000.png: is neither"), std::string::npos)
      << outcome.err;
  for (const char* name : {"001", "002"}) put(fmt::format("images/dark/{}.png", name), "no image");
  refused(3, "train --task images --data images --size 2 --steps 1" + kSmall + " --out other",
          {"images", "more than one in 100"});
}

TEST_F(DataCommand, TextsMayBeBytes) {
  std::string all;
  for (int i = 0; i < 1024; ++i) all += static_cast<char>(i % 256);
  put("any.bin", all);
  done("train --task text --bytes --data any.bin --length 16 --steps 2" + kSmall + " --out run");
  EXPECT_NE(done("info run").out.find("tokens      256"), std::string::npos);
  EXPECT_EQ(done("sample run --tokens 20").out.size(), 21u);
  refused(2, "train --task digits --bytes --out other", {"--bytes"});
  refused(2, "train --task copy --flip --out other", {"--flip"});
}

}  // namespace
}  // namespace linea
