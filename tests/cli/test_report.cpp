// RUN/report.html: what it shows, and that it never stops a run.
#include "tests/cli/program.h"

namespace linea {
namespace {

class Report : public ProgramTest {
 protected:
  static void expect_parts(const std::string& page, const Words& parts) {
    for (const std::string& part : parts)
      EXPECT_NE(page.find(part), std::string::npos) << part << " is not in:\n" << page;
  }
  // Decodes base64 by its definition.
  static std::string decoded(const std::string& text) {
    const std::string digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    std::string bits, bytes;
    for (const char c : text)
      for (size_t bit = 32; c != '=' && bit > 0; bit /= 2)
        bits += (digits.find(c) & bit) != 0 ? '1' : '0';
    for (size_t i = 0; i + 8 <= bits.size(); i += 8)
      bytes += static_cast<char>(std::stoi(bits.substr(i, 8), nullptr, 2));
    return bytes;
  }
};

TEST_F(Report, ShowsTheRun) {
  done(kDigits + " --steps 20 --eval-every 10 --out run");
  const std::string page = bytes("run/report.html");
  expect_parts(page, {"<title>run</title>", "step 20 of 20, finished", "best validation",
                      "bits/dim", "<svg", "run, validation", "learning rate", "step-00000020",
                      "<td>eval_every</td><td>10</td>", "<td>levels</td><td>4</td>"});
  EXPECT_EQ(page.find("refresh"), std::string::npos) << "of a run that has ended";
  EXPECT_EQ(page.find("<?xml"), std::string::npos);
  const std::string start = "base64,";
  const size_t first = page.find(start) + start.size();
  EXPECT_EQ(decoded(page.substr(first, page.find('"', first) - first)),
            bytes("run/samples/step-00000020.png"));
  for (const char* other : {"href=", "http://l", "https:", "<script"})  // one file
    EXPECT_EQ(page.find(other), std::string::npos) << other;
}

TEST_F(Report, ShowsTextEscaped) {
  put("text.txt", std::string(200, '<') + std::string(200, '&') + "\n\n<&\n<&");
  done(kText + " --steps 3 --out run");
  const std::string page = bytes("run/report.html");
  const size_t first = page.find("<pre>"), last = page.find("</pre>");
  ASSERT_NE(last, std::string::npos);
  std::string text = page.substr(first + 5, last - first - 5);
  EXPECT_EQ(text.find('<'), std::string::npos);
  for (const auto& [entity, token] : {std::pair{"&lt;", "<"}, {"&amp;", "&"}})
    for (size_t at = 0; (at = text.find(entity, at)) != std::string::npos; ++at)
      text.replace(at, std::strlen(entity), token);
  EXPECT_EQ(text, bytes("run/samples/step-00000003.txt") + "\n");
}

TEST_F(Report, IsLoadedAgainWhileTheRunGoesOn) {
  Child child(path(""), words_of(kCopy + " --steps 100000000 --out run"));
  for (int i = 0; i < 3000 && !exists("run/report.html"); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  ASSERT_TRUE(exists("run/report.html"));
  expect_parts(bytes("run/report.html"), {"http-equiv=\"refresh\"", "of 100000000, running"});
  child.signal(SIGTERM);
  EXPECT_EQ(child.wait().code, 75);
  expect_parts(bytes("run/report.html"), {"of 100000000, stopped"});
  EXPECT_EQ(bytes("run/report.html").find("refresh"), std::string::npos);
}

// The page of the first step has no validation, and without one the next would come in ten seconds.
TEST_F(Report, IsWrittenAfterEachValidation) {
  Child child(path(""), words_of(kCopy + " --steps 100000000 --eval-every 2 --out run"));
  const auto validations = [&] {
    size_t count = 0;
    if (exists("run/metrics.jsonl")) {
      const std::string lines = bytes("run/metrics.jsonl");
      for (size_t at = 0; (at = lines.find("\"val_loss\"", at)) != std::string::npos; ++at) ++count;
    }
    return count;
  };
  for (int i = 0; i < 3000 && validations() < 2; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  child.signal(SIGKILL);
  EXPECT_EQ(child.wait().code, 128 + SIGKILL);
  EXPECT_GE(validations(), 2u);
  expect_parts(bytes("run/report.html"), {"running", "best validation"});
}

TEST_F(Report, AFailureIsReportedOnceAndStopsNothing) {
  done(kCopy + " --steps 2 --save-every 1 --out run");
  remove("run/report.html");
  fs::create_directories(path("run/report.html/in the way"));
  const Outcome outcome = done("train --resume run --steps 6");
  const size_t first = outcome.err.find("no report.html: ");
  EXPECT_NE(first, std::string::npos) << outcome.err;
  EXPECT_EQ(outcome.err.find("no report.html", first + 1), std::string::npos) << outcome.err;
}

TEST_F(Report, SaysThatTheRunFailed) {
  const Outcome outcome =
      linea(kCopy + " --steps 200 --lr 1e30 --min-lr 0 --clip 0 --warmup 0 --out run");
  EXPECT_EQ(outcome.code, 4) << outcome.err;
  expect_parts(bytes("run/report.html"), {", failed"});
}

}  // namespace
}  // namespace linea
