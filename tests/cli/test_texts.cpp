// Texts and names as people bring them: archives, other encodings, paths that are not UTF-8.
#include "data/utf8.h"
#include "tests/cli/program.h"
#include "tests/data/readers/idx_bytes.h"
#include "tests/data/readers/tar_bytes.h"
#include "tests/data/readers/zip_bytes.h"

namespace linea {
namespace {

class Texts : public ProgramTest {
 protected:
  static void expect_utf8(const std::string& text) {
    EXPECT_EQ(first_non_utf8(text), text.size()) << valid_utf8(text);
  }
};

const std::string kTrain = "train --task text --length 16" + kSmall + " --steps 2";

TEST_F(Texts, ArchivesAreUnpackedOrRefused) {
  put_text("book.txt", 2000);
  const std::string text = bytes("book.txt");
  const std::string tar = tar_file("book.txt", text) + kTarEnd;
  put("book.GZ", gzip(text));
  put("mac.zip",
      zip_bytes({zip_entry("book.txt", text), zip_entry("__MACOSX/._book.txt", "\1\2\3")}));
  put("ds.zip", zip_bytes({zip_entry("f/book.txt", text), zip_entry("f/.DS_Store", "x")}));
  done(kTrain + " --data book.txt --out plain");
  for (const std::string name : {"book.GZ", "mac.zip", "ds.zip"}) {
    done(kTrain + " --data " + name + " --out run-" + name);
    EXPECT_EQ(metrics("run-" + name).back()["val_loss"], metrics("plain").back()["val_loss"]);
  }
  put("book.tar", tar);
  put("book.tar.gz", gzip(tar));
  put("book.tgz", gzip(tar));
  put("book.docx", zip_bytes({zip_entry("[Content_Types].xml", "<x/>"),
                              zip_entry("word/document.xml", "<w>hi</w>")}));
  put("pointer.txt", "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12\n");
  const std::pair<std::string, std::string> kinds[] = {
      {"book.tar", "is a tar archive; unpack it by tar -xf"},
      {"book.tar.gz", "holds a tar archive in gzip; unpack it by tar -xf"},
      {"book.tgz", "holds a tar archive in gzip"},
      {"book.docx", "is a Word document (.docx); save it as plain text"},
      {"pointer.txt", "is a pointer of Git LFS, not the file itself; fetch the file by git lfs"}};
  for (const auto& [name, reason] : kinds) {
    refused(3, kTrain + " --data " + name + " --out other", {name, reason});
    refused(3, "eval plain --data " + name, {name, reason});
    refused(3, "sample plain --prompt-file " + name, {name, reason});
    refused(3, "sample plain --prompts " + name, {name, reason});
  }
  EXPECT_FALSE(exists("other"));
  put("prompt.gz", gzip("\xEF\xBB\xBF"
                        "abc"));
  EXPECT_EQ(done("sample plain --prompt-file prompt.gz --tokens 5").out,
            done("sample plain --prompt abc --tokens 5").out);
}

// A young model of bytes samples bytes that are not UTF-8.
TEST_F(Texts, SamplesOfBytesAreReportedAsUtf8) {
  std::string text;
  for (int i = 0; i < 300; ++i) text += "caf\xE9 \xC3\xA9 ";
  put("text.txt", text);
  done(kText + " --steps 2 --tensorboard --out run");
  ASSERT_LT(first_non_utf8(bytes("run/samples/step-00000002.txt")), 500u);
  expect_utf8(bytes("run/report.html"));
  EXPECT_NE(bytes("run/report.html").find("\\xE9"), std::string::npos);
}

TEST_F(Texts, PathsMayBeAnyBytes) {
  const std::string name = "caf\xE9", escaped = "caf\\xE9";
  put_text("text.txt", 2000);
  fs::create_directories(path("runs"));
  done(kText + " --steps 2 --out runs/fine");
  done(words_of(kText + " --steps 2 --out") + Words{"runs/" + name});
  expect_utf8(bytes("runs/" + name + "/report.html"));
  EXPECT_NE(bytes("runs/" + name + "/report.html").find("<title>" + escaped), std::string::npos);

  const std::vector<nlohmann::json> runs = json_lines(done("runs runs --json").out);
  ASSERT_EQ(runs.size(), 2u);
  EXPECT_EQ(runs[0]["run"], escaped);
  EXPECT_EQ(runs[1]["run"], "fine");
  EXPECT_NE(done("runs runs").out.find("\n" + escaped + " "), std::string::npos);
  const auto info = json_lines(done(Words{"info", "runs/" + name, "--json"}).out);
  EXPECT_EQ(info.at(0)["samples"][0], "runs/" + escaped + "/samples/step-00000002.txt");
  expect_utf8(done(Words{"info", "runs/" + name}).out);
  done(Words{"plot", "runs/" + name, "runs/fine", "--svg", "a.svg"});
  expect_utf8(bytes("a.svg"));
  EXPECT_NE(bytes("a.svg").find(escaped), std::string::npos);

  fs::create_directories(path(name));
  put(name + "/text.txt", bytes("text.txt"));
  check_refusal(linea(words_of(kTrain + " --out other --data") + Words{name + "/text.txt"}), 2,
                "a path that config.toml cannot hold",
                {"--data is '" + escaped + "/text.txt'", "not UTF-8", "rename it"});
  check_refusal(linea(Words{"eval", "runs/fine", "--data", "no-" + name}), 3, "a missing file",
                {"no-" + escaped, "no such file"});
  EXPECT_FALSE(exists("other"));
  // Where nothing records the path, it is only a path.
  done(Words{"eval", "runs/fine", "--data", name + "/text.txt"});
  done(Words{"sample", "runs/fine", "--prompt-file", name + "/text.txt", "--tokens", "2"});
}

}  // namespace
}  // namespace linea
