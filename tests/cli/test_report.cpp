// RUN/report.html: what it shows, and that it never stops a run.
#include <ctime>

#include "tests/cli/program.h"
#include "train/record/report.h"

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
  expect_parts(
      page, {"<title>run</title>", "step 20 of 20, finished", "best validation", "bits/dim", "<svg",
             "run, validation", "learning rate", "gradient norm", "step-00000020",
             "<td>eval_every</td><td>10</td>", "<td>levels</td><td>4</td>"});
  EXPECT_EQ(page.find("refresh"), std::string::npos) << "of a run that has ended";
  EXPECT_EQ(page.find("<?xml"), std::string::npos);
  const std::string start = "base64,";
  const size_t first = page.find(start) + start.size();
  EXPECT_EQ(decoded(page.substr(first, page.find('"', first) - first)),
            bytes("run/samples/step-00000020.png"));
  for (const char* other : {"href=", "http://l", "https:", "<script src", "url("})  // one file
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

// A line of commands.txt for each program that trained the run, as a shell reads it.
TEST_F(Report, ShowsTheCommands) {
  done(words_of(kCopy + " --steps 2 --out") + Words{"a run's"});
  done(Words{"train", "--resume", "a run's", "--steps", "4"});
  const Words commands = lines_of(bytes("a run's/commands.txt"));
  ASSERT_EQ(commands.size(), 2u);
  EXPECT_NE(commands[0].find("linea " + kCopy + " --steps 2 --out 'a run'\\''s'"),
            std::string::npos)
      << commands[0];
  EXPECT_NE(commands[1].find("linea train --resume 'a run'\\''s' --steps 4"), std::string::npos);
  expect_parts(
      bytes("a run's/report.html"),
      {"Commands", " --out &apos;a run&apos;\\&apos;&apos;s&apos;</code>", "--steps 4</code>"});
}

// The first sample and evenly spaced ones after it, below the last.
TEST_F(Report, ShowsEarlierSamples) {
  done(kDigits + " --steps 20 --sample-every 1 --out run");
  const std::string page = bytes("run/report.html");
  Words shown;
  const std::string start = "<figcaption>step ";
  for (size_t at = page.find(start); at != std::string::npos; at = page.find(start, at + 1))
    shown.push_back(page.substr(at + start.size(), page.find('<', at + 1) - at - start.size()));
  EXPECT_EQ(shown, words_of("20 1 4 7 10 13 16"));
  EXPECT_LT(page.size(), 400u << 10);

  put("text.txt", std::string(50, 'a') + "\u00e9" + std::string(150, 'b'));
  done(kText + " --steps 2 --sample-every 1 --out text");
  put("text/samples/step-00000001.txt", std::string(299, 'x') + "\u00e9y");
  done("train --resume text --steps 2");
  expect_parts(bytes("text/report.html"), {">" + std::string(299, 'x') + "\u2026\n</pre>"});
}

TEST_F(Report, IsLoadedAgainWhileTheRunGoesOn) {
  Child child(path(""), words_of(kCopy + " --steps 100000000 --out run"));
  for (int i = 0; i < 3000 && !exists("run/report.html"); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  ASSERT_TRUE(exists("run/report.html"));
  expect_parts(bytes("run/report.html"), {"http-equiv=\"refresh\"", "of 100000000, running"});
  // A page that is older than data-patience seconds says so.
  expect_parts(
      bytes("run/report.html"),
      {" data-patience=\"", "id=\"stale\" class=\"stale\" hidden", "linea train --resume run"});
  const std::string page = bytes("run/report.html"), attribute = "data-written=\"";
  const double written = std::stod(page.substr(page.find(attribute) + attribute.size()));
  EXPECT_NEAR(written, static_cast<double>(std::time(nullptr)), 60);
  child.signal(SIGTERM);
  EXPECT_EQ(child.wait().code, 75);
  expect_parts(bytes("run/report.html"), {"of 100000000, stopped"});
  EXPECT_EQ(bytes("run/report.html").find("refresh"), std::string::npos);
  EXPECT_EQ(bytes("run/report.html").find("id=\"stale\""), std::string::npos);
}

// The second half of the steps so far took 0.5 s a step, validations included.
TEST_F(Report, EstimatesTheTimeLeft) {
  const RunConfig config = [] {
    RunConfig result;
    result.task = "copy";
    result.steps = 1000;
    return result;
  }();
  fs::create_directories(path("run"));
  put("run/metrics.jsonl",
      "{\"step\":10,\"loss\":2,\"elapsed_s\":100}\n{\"step\":60,\"loss\":2,\"elapsed_s\":120}\n"
      "{\"step\":90,\"val_loss\":2,\"elapsed_s\":137}\n{\"step\":100,\"loss\":1,\"elapsed_s\":140}"
      "\n");
  const std::string page = [&] {
    write_report(path("run"), config, TaskShape{}, 100, RunStatus::running);
    return bytes("run/report.html");
  }();
  expect_parts(page, {"about 7m30s left"});
  write_report(path("run"), config, TaskShape{}, 100, RunStatus::stopped);
  EXPECT_EQ(bytes("run/report.html").find(" left"), std::string::npos);
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
