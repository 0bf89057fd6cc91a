// linea lab: every command of every lesson gives what the lesson says, and lessons have their form.
#include <set>

#include "lab/excerpt.h"
#include "lab/expect.h"
#include "lab/formula.h"
#include "lab/lesson.h"
#include "lab/markdown.h"
#include "nn/attention.h"
#include "tests/cli/lab_findings.h"

namespace linea {
namespace {

class Lab : public ProgramTest {};
class Lessons : public ProgramTest, public testing::WithParamInterface<std::string> {};

size_t count_of(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = 0; (at = text.find(part, at)) != std::string::npos; ++at) ++count;
  return count;
}

size_t blocks_of(const lab::Lesson& lesson, const std::string& kind) {
  return static_cast<size_t>(
      std::count_if(lesson.blocks.begin(), lesson.blocks.end(),
                    [&](const lab::Block& block) { return block.kind == kind; }));
}

TEST_P(Lessons, CommandsGiveWhatTheLessonSays) {
  const Outcome outcome = done("lab run --quick --out lab " + GetParam());
  EXPECT_EQ(lab_findings(path("lab")), "");
  const lab::Lesson& lesson = lab::find_lesson(GetParam());
  EXPECT_EQ(count_of(outcome.out, "    $ linea "), blocks_of(lesson, "run"));
  EXPECT_GT(count_of(outcome.out, "As expected"), 0u);
  EXPECT_EQ(count_of(bytes("lab/" + lesson.name + ".html"), "<figure "),
            blocks_of(lesson, "figure"));
  EXPECT_EQ(count_of(outcome.err, "lesson"), count_of(outcome.err, "lessons/")) << outcome.err;
}

INSTANTIATE_TEST_SUITE_P(Lab, Lessons,
                         testing::Values("1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "A",
                                         "B", "C"));

// One order everywhere, and not too long.
TEST_F(Lab, LessonsHaveTheirForm) {
  EXPECT_EQ(lab::lessons().size(), 13u);
  const Words order = {
      "## Predict",   "## Formula", "## Run", "## Read", "## What people get wrong",
      "## Exercises", "## Next"};
  for (const lab::Lesson& lesson : lab::lessons()) {
    SCOPED_TRACE(lesson.title);
    Words headings;
    size_t words = 0, lines = 0;
    for (const lab::Block& block : lesson.blocks) {
      for (const std::string& line : block.lines) {
        if (line.rfind("## ", 0) == 0) headings.push_back(line);
        if (block.kind != "code") words += words_of(line).size(), ++lines;
      }
      if (block.kind == "predict") {
        EXPECT_EQ(block.values("answer").size(), 1u);
        EXPECT_EQ(count_of(fmt::format("{}", fmt::join(block.lines, "\n")), "\n- "), 3u);
      }
      if (block.kind == "question" && block.about.find("text") == std::string::npos) {
        EXPECT_EQ(block.values("hint").size(), 2u) << block.about;
        EXPECT_EQ(block.values("read").size(), 1u) << block.about;
        if (block.about.find("file") != std::string::npos) continue;
        const std::string id = words_of(block.about)[0], answer = words_of(block.about)[2];
        EXPECT_EQ(linea("lab check " + id + " " + answer).code, 0) << id;
      }
    }
    EXPECT_EQ(headings, order);
    EXPECT_LE(words, 900u);
    EXPECT_LE(lines, 150u);
    for (const char* kind : {"predict", "formula", "run", "expect", "code", "question"})
      EXPECT_GE(blocks_of(lesson, kind), 1u) << kind;
  }
}

// A toy that someone has changed gives other numbers, and a lesson says so.
TEST_F(Lab, SaysWhereAnOutputIsAnother) {
  fs::create_directories(path("lessons"));
  put("lessons/toy.json",
      R"({"q": [[0,0],[0,1],[1,1]], "k": [[0,0],[1,0],[0,2]], "v": [[1,0],[0,1],[1,1]]})");
  const Outcome outcome = linea("lab run 3");
  EXPECT_EQ(outcome.code, 4);
  EXPECT_NE(outcome.err.find("lesson 3: `linea attend"), std::string::npos) << outcome.err;
  EXPECT_NE(outcome.err.find("does not hold"), std::string::npos) << outcome.err;
}

TEST_F(Lab, ListsLessonsAndWritesTheirFiles) {
  const std::string list = done("lab").out;
  for (const lab::Lesson& lesson : lab::lessons())
    EXPECT_NE(list.find(lesson.title), std::string::npos) << lesson.title;
  const Outcome first = done("lab run 1");
  EXPECT_NE(first.err.find("lessons/toy.json was written"), std::string::npos) << first.err;
  EXPECT_EQ(done("lab run 1").err, "");
  refused(2, "lab run 11", {"no lesson '11'", "10", "all"});
}

TEST_F(Lab, ChecksAnswers) {
  EXPECT_EQ(done("lab check 3.1 17").out, "3.1: right\n");
  const auto wrong = [&](const std::string& words, const std::string& hint) {
    const Outcome outcome = linea("lab check " + words);
    EXPECT_EQ(outcome.code, 1) << outcome.err;
    EXPECT_NE(outcome.out.find(hint), std::string::npos) << outcome.out;
  };
  wrong("3.1 16", "Count numbers");
  wrong("3.1 16.5 --hint 2", "16.5");
  wrong("3.1 16 --hint 3", "Read lesson 3");
  const auto toy = [&](const std::string& k) {
    put("my.json", R"({"q": [[0,0],[0,1],[1,0]], "k": [)" + k + R"(], "v": [[1,0],[0,1],[1,1]]})");
  };
  toy("[0,0],[1,0],[0,2]");
  wrong("1.2 my.json", "t = 3; y @2 is 0.49651");
  toy("[0,0],[50,0],[0,2]");
  EXPECT_EQ(done("lab check 1.2 my.json").out, "1.2: right\n");
  wrong("2.2 my.json --hint 2", "sum to 2, 4 and 6");
  put("my.json", R"({"q": [[0,0],[0,0],[0,0]], "k": [[0,0],[1,1],[2,2]], "v": [[1],[2],[3]]})");
  EXPECT_EQ(done("lab check 2.2 my.json").out, "2.2: right\n");
  EXPECT_EQ(linea("lab check 2.2 none.json").code, 3);
  refused(2, "lab check 3.3 1", {"3.3", "to think about"});
  refused(2, "lab check 99.1 1", {"99.1", "3.1"});
  refused(2, "lab check 3.1 many", {"many"});
}

// A page is made of data/ alone, and tools/check_pages.py finds what is wrong with one.
TEST_F(Lab, MakesPagesOfItsRecords) {
  done("lab run 3 --out lab");
  const std::string page = bytes("lab/03-order.html"), index = bytes("lab/index.html"),
                    record = bytes("lab/data/03-order.json");
  done("lab render --out lab");
  EXPECT_EQ(bytes("lab/03-order.html"), page);
  EXPECT_EQ(bytes("lab/index.html"), index);
  EXPECT_NE(index.find("03-order.html"), std::string::npos);
  EXPECT_NE(index.find("linea lab run 4 --out lab"), std::string::npos);
  for (const AttentionEntry& entry : attentions())
    EXPECT_NE(bytes("lab/map.html").find("<code>" + entry.name + "</code>"), std::string::npos)
        << entry.name;
  for (const char* side : {"letters", "questions", "teacher", "map"})
    EXPECT_NE(index.find(std::string(side) + ".html"), std::string::npos) << side;
  const auto found_after = [&](const std::string& from, const std::string& to,
                               const std::string& finding) {
    std::string changed = page;
    const size_t at = changed.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    put("lab/03-order.html", changed.replace(at, from.size(), to));
    EXPECT_NE(lab_findings(path("lab")).find(finding), std::string::npos) << finding;
  };
  found_after("</main>", "<p>about 12.5</p></main>", "12.5 does not say");
  found_after("</main>", "<img src=\"http://x\"></main>", "loads something");
  found_after("</main>", "<p><a href=\"none.html\">x</a></p></main>", "leads nowhere");
  found_after("value=\"512\">512", "value=\"513\">513", "513 is 512");
  found_after("data-largest=\"", "data-largest=\"9", "has the color of");
  found_after("color-scheme", "Color-scheme", "does not allow");
  put("lab/03-order.html", page);
  std::string other = record;
  const size_t at = other.find("\"larger_from\": 33");
  ASSERT_NE(at, std::string::npos);
  put("lab/data/03-order.json", other.replace(at, 17, "\"larger_from\": 34"));
  EXPECT_NE(lab_findings(path("lab")).find("33 is 34"), std::string::npos);
  done("lab render --out lab");
  EXPECT_EQ(lab_findings(path("lab")), "");
  EXPECT_NE(bytes("lab/03-order.html"), page);
  put("lab/data/03-order.json", "[1]");
  refused(3, "lab render --out lab", {"03-order.json", "run the lesson again"});
  refused(2, "lab render --out none", {"none/data", "linea lab run 1"});
}

// Formulas, code and the targets of links, sorted; headings and list items by their signs alone.
Words marks_of(const std::string& text) {
  Words marks;
  for (const auto& [open, close] : {std::pair{"$", "$"}, {"`", "`"}, {"](", ")"}}) {
    const std::string from = open, to = close;
    for (size_t at = 0; (at = text.find(from, at)) != std::string::npos;) {
      const size_t end = text.find(to, at + from.size());
      if (end == std::string::npos) break;
      marks.push_back(text.substr(at, end - at + to.size()));
      at = end + to.size();
    }
  }
  std::sort(marks.begin(), marks.end());
  return marks;
}

// The lines of a block as paragraphs, which an empty line, a heading, an item, a code line or a key divides.
Words paragraphs_of(const lab::Block& block) {
  Words all;
  bool open = false;
  for (const std::string& line : block.lines) {
    const bool key = block.plain().size() < block.lines.size() && [&] {
      const Words plain = block.plain();
      return std::find(plain.begin(), plain.end(), line) == plain.end();
    }();
    const bool item = !line.empty() && line[0] == '-';
    const bool own = key || line.empty() || line[0] == '#' || line[0] == ' ' || line[0] == '|';
    if (own || item || !open) all.emplace_back();
    all.back() += line + "\n";
    open = !own;
  }
  std::erase(all, "\n");
  return all;
}

// Each lesson has a translation of the same blocks: commands, outputs, formulas and figures to the letter, texts with
// the same formulas, code and sources of numbers.
TEST_F(Lab, TranslationsHaveTheSameBlocks) {
  const std::set<std::string> copied = {"run", "expect", "figure", "formula", "code"};
  for (const lab::Lesson& lesson : lab::lessons()) {
    const lab::Lesson& other = lab::in_language(lesson, "zh");
    SCOPED_TRACE(lesson.name);
    ASSERT_NE(&other, &lesson);
    EXPECT_EQ(other.name, lesson.name);
    EXPECT_EQ(other.id, lesson.id);
    EXPECT_NE(other.title, lesson.title);
    ASSERT_EQ(other.blocks.size(), lesson.blocks.size());
    for (size_t b = 0; b < lesson.blocks.size(); ++b) {
      const lab::Block &from = lesson.blocks[b], &to = other.blocks[b];
      ASSERT_EQ(to.kind + " " + to.about, from.kind + " " + from.about);
      if (copied.count(from.kind) != 0) {
        EXPECT_EQ(to.lines, from.lines);
        continue;
      }
      const Words before = paragraphs_of(from), after = paragraphs_of(to);
      ASSERT_EQ(after.size(), before.size()) << fmt::format("{}", fmt::join(to.lines, "\n"));
      for (size_t i = 0; i < before.size(); ++i) {
        EXPECT_EQ(marks_of(after[i]), marks_of(before[i])) << after[i];
        EXPECT_EQ(after[i].substr(0, 2) == "- ", before[i].substr(0, 2) == "- ") << after[i];
        if (before[i].starts_with("    ")) {
          EXPECT_EQ(after[i], before[i]);
        }
      }
      for (const char* key : {"answer", "hint", "read", "run", "holds"})
        EXPECT_EQ(to.values(key).size(), from.values(key).size()) << key;
    }
  }
}

TEST_F(Lab, SpeaksChinese) {
  const Outcome outcome = done("lab run 3 --language zh --out lab");
  EXPECT_EQ(lab_findings(path("lab")), "");
  const lab::Lesson& lesson = lab::in_language(lab::find_lesson("3"), "zh");
  EXPECT_NE(outcome.out.find(lesson.title), std::string::npos);
  const std::string page = bytes("lab/03-order.html");
  EXPECT_NE(page.find("<html lang=\"zh\">"), std::string::npos);
  EXPECT_NE(page.find(lesson.title), std::string::npos);
  EXPECT_NE(bytes("lab/index.html").find(lesson.title), std::string::npos);
  done("lab render --out lab");
  EXPECT_EQ(bytes("lab/03-order.html"), page);
  EXPECT_EQ(done("lab check 3.1 17 --language zh").out, "3.1: right\n");
  EXPECT_NE(linea("lab check 3.1 16 --language zh").out, linea("lab check 3.1 16").out);
  refused(2, "lab run 3 --language fr", {"fr", "zh"});
}

TEST_F(Lab, BuildsALessonOfOnesOwn) {
  const std::string text =
      "# X \u00b7 Mine & yours\n\nWhat is <b> of $q_i$?\n\n"
      "```run 1\nlinea attend --in lessons/toy.json --causal --form recurrent --show steps\n```\n\n"
      "```expect exact\ny  0.428571  0.571429\n```\n\n"
      "```question X.1 number 3\nHow many positions?\nhint: count them\n```\n";
  put("my_lesson.md", text);
  const Outcome outcome = done("lab build my_lesson.md --out lab");
  EXPECT_NE(outcome.out.find("lab/own-my-lesson.html"), std::string::npos) << outcome.out;
  EXPECT_EQ(lab_findings(path("lab")), "");
  const std::string page = bytes("lab/own-my-lesson.html");
  for (const char* part : {"Mine &amp; yours", "0.428571  0.571429", "How many positions",
                           "<p>3</p>", "count them", "class=\"ok\""})
    EXPECT_NE(page.find(part), std::string::npos) << part;
  EXPECT_NE(bytes("lab/index.html").find("own-my-lesson.html"), std::string::npos);
  done("lab render --out lab");
  EXPECT_EQ(bytes("lab/own-my-lesson.html"), page);

  put("wrong.md",
      "# Y \u00b7 Wrong\n\n```run 1\nlinea attend --in lessons/toy.json "
      "--causal\n```\n\n```expect exact\ny 7\n```\n");
  EXPECT_EQ(linea("lab build wrong.md --out lab").code, 4);
  put("kind.md", "# Z \u00b7 Z\n\n```python\nprint(1)\n```\n");
  refused(3, "lab build kind.md --out other", {"kind.md", "'python'", "formula"});
  put("title.md", "no title\n");
  refused(3, "lab build title.md --out other", {"title.md", "# ID"});
  refused(2, "lab build toy.json --out other", {"toy.json", ".md"});
  refused(3, "lab build none.md --out other", {"none.md"});
}

// Twelve, each of at most 80 words, with a command; those that take no time run here.
TEST_F(Lab, AnswersQuestions) {
  const auto& pages = lab::side_pages();
  const auto page = std::find_if(pages.begin(), pages.end(),
                                 [](const lab::Lesson& one) { return one.id == "questions"; });
  ASSERT_NE(page, pages.end());
  fs::create_directories(path("lessons"));
  for (const lab::LessonFile& file : lab::kLessonFiles)
    if (file.name.ends_with(".json")) put("lessons/" + file.name, file.text);
  size_t questions = 0, commands = 0, words = 0;
  for (const lab::Block& block : page->blocks)
    for (const std::string& line : block.lines) {
      const bool question = line.rfind("## ", 0) == 0;
      if (question) ++questions, words = 0;
      if (block.kind == "text" && !question) words += words_of(line).size();
      EXPECT_LE(words, 80u) << line;
      if (block.kind != "run") continue;
      ++commands;
      const Words command = words_of(line);
      EXPECT_EQ(command.at(0), "linea");
      if (command.at(1) == "attend") {
        EXPECT_NE(done(Words(command.begin() + 1, command.end())).out, "");
      }
    }
  EXPECT_EQ(questions, 12u);
  EXPECT_EQ(commands, 12u);
}

TEST_F(Lab, ReadsFormulas) {
  const auto tex = [](const std::string& text) { return lab::parse_formula(text, true).tex; };
  EXPECT_EQ(tex("S_t = S_{t-1} + phi(k_t)^T v_t"),
            "S_{t}=S_{t-1}+\\phi\\left(k_{t}\\right)^{\\top}v_{t}");
  EXPECT_EQ(tex("x^ = x / D^{1/4}"), "\\hat{x}=\\frac{x}{D^{1/4}}");
  EXPECT_EQ(tex("(a + b) c / (d + 1)"), "\\frac{\\left(a+b\\right)c}{d+1}");
  EXPECT_EQ(tex("|q^ + k^|^2"), "\\left|\\hat{q}+\\hat{k}\\right|^{2}");
  EXPECT_EQ(tex("p(f | k)"), "p\\left(f\\mid k\\right)");
  EXPECT_EQ(tex("sum_{t<j<=i} a_ij v_j"), "\\sum_{t<j\\le i}a_{i j}v_{j}");
  EXPECT_EQ(lab::parse_formula("a / b", false).tex, "a/b");
  for (const char* broken :
       {"(a", "a)", "|x", "x_", "x^{", "/ 2", "", "gated", "sum", "[", "_", "a /", "\xFF"})
    EXPECT_NO_THROW(static_cast<void>(lab::math_element(broken, true))) << broken;
}

TEST_F(Lab, ReadsTextsForTerminals) {
  const auto measured = [](const std::string& place, const std::string&) {
    return "<" + place + ">";
  };
  EXPECT_EQ(lab::plain_text("at $N = 64$ [65](=4*(5+1)) or `$x$`", measured),
            "at N = 64 65 or `$x$`");
  EXPECT_EQ(lab::plain_text("[1.5](<@a; b @7>) [text](x) [2](docs/a.md)", measured),
            "<a; b @7> [text](x) 2");
}

TEST_F(Lab, CutsOutDefinitions) {
  const std::string source =
      "// Head,\n// two lines.\n#include <x>\n\nint f(int a);\n\n// Doubles.\ntemplate <typename "
      "T>\n"
      "T f(T a) {\n  if (g(a)) { return '}'; }\n  return \"}\" + 2 * a;  // }\n}\n\nclass C {\n "
      "public:\n"
      "  // Reads.\n  int g(int a) const override {\n    return f(a);\n  }\n};\n";
  EXPECT_EQ(lab::excerpt(source, "head"), "// Head,\n// two lines.\n");
  EXPECT_EQ(lab::excerpt(source, "f"),
            "// Doubles.\ntemplate <typename T>\nT f(T a) {\n  if (g(a)) { return '}'; }\n"
            "  return \"}\" + 2 * a;  // }\n}\n");
  EXPECT_EQ(lab::excerpt(source, "g"),
            "// Reads.\nint g(int a) const override {\n  return f(a);\n}\n");
  EXPECT_THROW(lab::excerpt(source, "h"), Error);
}

TEST_F(Lab, ComparesOutputs) {
  const std::string output = "soft\n  8  1.5  x\n  9 2\nlinear\n  8   6\n a check  1 2  FAILED\n";
  EXPECT_EQ(lab::mismatch("exact", {"8 1.5 x", "9 2"}, output), "");
  EXPECT_NE(lab::mismatch("exact", {"8 1.5 x", "linear"}, output), "");
  EXPECT_EQ(lab::mismatch("ratio", {"linear; 8 @2 / soft; 8 @2 from 3.9 to 4.1"}, output), "");
  EXPECT_NE(lab::mismatch("ratio", {"linear; 8 @2 / soft; 8 @2 from 3 to 3.9"}, output), "");
  EXPECT_NE(lab::mismatch("recorded", {"7 @2 from 0 to 9"}, output), "");
  EXPECT_EQ(lab::mismatch("fails", {"a check"}, output), "");
  EXPECT_NE(lab::mismatch("fails", {}, output), "");
  EXPECT_NE(lab::mismatch("fails", {"a check", "another"}, output), "");
  EXPECT_THROW(lab::mismatch("roughly", {}, output), Error);
}

}  // namespace
}  // namespace linea
