// A lesson as a page, with the outputs of its record.
#include <algorithm>
#include <map>

#include "base/error.h"
#include "data/chart.h"
#include "data/files.h"
#include "data/page.h"
#include "lab/answers.h"
#include "lab/expect.h"
#include "lab/figures.h"
#include "lab/formula.h"
#include "lab/markdown.h"
#include "lab/number.h"
#include "lab/pages.h"
#include "lab/run_page.h"

namespace linea::lab {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kLongOutput = 40;  // lines; longer ones are folded away

std::string joined(const std::vector<std::string>& lines) {
  return fmt::format("{}\n", fmt::join(lines, "\n"));
}

std::string escaped(const std::vector<std::string>& lines) {
  return escape_lines(fmt::format("{}", fmt::join(lines, "\n")));
}

std::vector<std::string> split_lines(const std::string& text) {
  std::vector<std::string> lines(1);
  for (const char c : text)
    if (c == '\n')
      lines.emplace_back();
    else
      lines.back() += c;
  if (lines.back().empty()) lines.pop_back();
  return lines;
}

// The parts of a line that are two blanks or more apart.
std::vector<std::string> split_formulas(const std::string& line) {
  std::vector<std::string> parts;
  for (size_t at = line.find_first_not_of(' '); at < line.size();) {
    const size_t end = std::min(line.find("  ", at), line.size());
    parts.push_back(line.substr(at, end - at));
    at = line.find_first_not_of(' ', end);
  }
  return parts;
}

std::string language_of(const Record& record) {
  return record.has("/language") ? record.text("/language") : "en";
}

// What pages say around a lesson's text, in its language.
std::string said(const std::string& language, const char* english) {
  static const std::map<std::string, const char*> chinese = {
      {"The answer", "答案"},
      {"The output", "输出"},
      {"This was the shorter version of", "这是下面命令的短版本："},
      {"It took", "用时"},
      {"With more time:", "时间多时："},
      {"Not as expected:", "与预期不同："},
      {"Exercise", "练习"},
      {"Check it:", "检查："},
      {"A hint", "提示"},
      {"Another hint", "另一个提示"},
      {"All lessons", "全部课程"},
      {"Before: ", "上一课："},
      {"After: ", "下一课："}};
  return language == "zh" ? chinese.at(english) : english;
}

class LessonPage {
 public:
  LessonPage(const Lesson& lesson, const Record& record)
      : lesson_(lesson), record_(record), language_(language_of(record)) {}

  std::string body() {
    std::string html;
    for (const Block& block : lesson_.blocks) {
      if (block.kind == "text") html += to_html(joined(block.lines), measured_);
      if (block.kind == "formula") html += formula(block);
      if (block.kind == "predict") html += predict(block);
      if (block.kind == "run") html += run(block);
      if (block.kind == "expect") html += expect(block);
      if (block.kind == "figure") html += figure_element(block.about, record_);
      if (block.kind == "code") html += code(block);
      if (block.kind == "question") html += question(block);
    }
    return html;
  }

 private:
  static std::string formula(const Block& block) {
    std::string html;
    for (const std::string& line : block.lines) {
      // One that may be wider than the page can be scrolled by keys.
      html +=
          line.size() > 40 ? "<div class=\"formula\" tabindex=\"0\">" : "<div class=\"formula\">";
      for (const std::string& part : split_formulas(line)) html += math_element(part, true);
      html += "</div>\n";
    }
    return html;
  }

  std::string predict(const Block& block) const {
    std::string html = "<div class=\"predict\">\n" + to_html(joined(block.plain()), measured_);
    for (const std::string& answer : block.values("answer"))
      html += "<details><summary>" + said("The answer") + "</summary>\n" +
              to_html(answer, measured_) + "</details>\n";
    return html + "</div>\n";
  }

  // The block's command in the record: its number, or that of its shorter version.
  std::string run(const Block& block) {
    run_ = next_++;
    const std::string at = fmt::format("/runs/{}", run_);
    if (!record_.has(at)) return "";
    const std::vector<std::string> output = split_lines(record_.text(at + "/output"));
    std::string html = command_box(record_.text(at + "/command"));
    if (record_.flag(at + "/quick"))
      html += "<p class=\"mute\">" + said("This was the shorter version of") + " <code>" +
              escape_xml(block.plain().at(0)) + "</code></p>\n";
    const std::string lines =
        "<pre class=\"output\" tabindex=\"0\"><code>" + escaped(output) + "</code></pre>\n";
    if (std::ssize(output) > kLongOutput)
      html += "<details><summary>" + said("The output") + "</summary>\n" + lines + "</details>\n";
    else if (!output.empty())
      html += lines;
    html += fmt::format("<p class=\"mute\">{1} <time datetime=\"PT{0:.1f}S\">{0:.1f} s</time>.",
                        record_.value(at + "/seconds"), said("It took"));
    for (const std::string& longer : block.values("long"))
      html += " " + said("With more time:") + " <code>" + escape_xml(longer) + "</code>";
    return html + "</p>\n";
  }

  std::string expect(const Block& block) const {
    const std::string at = fmt::format("/runs/{}", run_);
    if (!record_.has(at)) return "";
    for (size_t i = 0; i < record_.size(at + "/as_expected"); ++i)
      if (record_.text(fmt::format("{}/as_expected/{}", at, i)) == block.about)
        return fmt::format("<p class=\"ok\">{}</p>\n", agreement(block));
    const std::string differs = record_.text(at + "/differs");
    if (differs.empty()) return "";
    return "<p class=\"differs\">" + said("Not as expected:") + "</p>\n<pre>" +
           escaped(split_lines(differs)) + "</pre>\n";
  }

  static std::string code(const Block& block) {
    return fmt::format(
        "<p class=\"mute\"><code>{}</code></p>\n<pre class=\"code\" tabindex=\"0\"><code>{}</code>"
        "</pre>\n",
        escape_xml(block.about.substr(0, block.about.find(' '))), escaped(block.lines));
  }

  std::string question(const Block& block) const {
    const std::string id = block.about.substr(0, block.about.find(' '));
    const bool own = !lesson_.markdown.empty();
    const bool checked = !own && block.about.find(" text") == std::string::npos;
    const size_t number = block.about.find(" number ");
    const std::string right =
        number == std::string::npos ? "" : escape_xml(block.about.substr(number + 8));
    const std::string answer = right.empty() ? ""
                                             : fmt::format(" data-answer=\"{}\" data-share=\"{}\"",
                                                           right, answer_share(right));
    std::string html =
        fmt::format("<section class=\"question\"{}>\n<h3>{} <code>{}</code></h3>\n{}", answer,
                    said("Exercise"), id, to_html(joined(block.plain()), measured_));
    if (checked)
      html += fmt::format("<p>{} <code>linea lab check {} {}</code></p>\n", said("Check it:"), id,
                          block.about.find(" file") == std::string::npos ? "NUMBER" : "FILE.json");
    const std::vector<std::string> hints = block.values("hint");
    for (size_t i = 0; i < hints.size(); ++i)
      html += fmt::format("<details class=\"hint\"><summary>{}</summary>\n{}</details>\n",
                          said(i == 0 ? "A hint" : "Another hint"), to_html(hints[i], measured_));
    if (own && !right.empty())
      html += fmt::format("<details><summary>{}</summary>\n<p>{}</p></details>\n",
                          said("The answer"), right);
    return html + "</section>\n";
  }

  std::string said(const char* english) const { return lab::said(language_, english); }

  const Lesson& lesson_;
  const Record& record_;
  const std::string language_;
  size_t run_ = 0, next_ = 0;
  MeasuredText measured_ = [this](const std::string& place, const std::string& text) {
    const std::string pointer =
        record_.has(fmt::format("/runs/{}", run_)) ? record_.pointer_to(run_, place) : "";
    if (pointer.empty()) return published_number(text, "a run of this command");
    return measured_number(word_at(place, record_.text(fmt::format("/runs/{}/output", run_))),
                           record_.file_name() + "#" + pointer);
  };
};

bool was_run(const Lesson& lesson, const fs::path& folder) {
  return fs::exists(folder / "data" / (lesson.name + ".json"));
}

// In the language that it was run in.
const Lesson& as_run(const Lesson& lesson, const fs::path& folder) {
  return in_language(lesson, language_of(Record(folder / "data" / (lesson.name + ".json"))));
}

std::string link_to(const Lesson& lesson, const char* attributes, const std::string& before) {
  return fmt::format("<a {}href=\"{}.html\">{}<span class=\"id\">{}</span> {}</a>\n", attributes,
                     lesson.name, before, lesson.id, escape_xml(lesson.title));
}

// The lessons before and after this one that have a page.
std::string navigation(const Lesson& lesson, const std::string& language, const fs::path& folder) {
  const Lesson *before = nullptr, *after = nullptr;
  bool passed = false;
  for (const Lesson& other : lessons()) {
    if (other.name == lesson.name) {
      passed = true;
    } else if (was_run(other, folder)) {
      if (!passed) before = &other;
      if (passed && after == nullptr) after = &other;
    }
  }
  std::string html = "<nav aria-label=\"Lessons\">\n<a href=\"index.html\">" +
                     said(language, "All lessons") + "</a>\n";
  if (before != nullptr)
    html += link_to(as_run(*before, folder), "rel=\"prev\" ", said(language, "Before: "));
  if (after != nullptr)
    html += link_to(as_run(*after, folder), "rel=\"next\" ", said(language, "After: "));
  return html + "</nav>\n";
}

// The names of the records that begin so, sorted: "run-", of runs, "own-", of lessons of one's own.
std::vector<std::string> records(const fs::path& folder, const std::string& kind) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder / "data", error))
    if (entry.path().extension() == ".json" && entry.path().stem().string().rfind(kind, 0) == 0)
      names.push_back(entry.path().stem().string());
  std::sort(names.begin(), names.end());
  return names;
}

Lesson recorded_lesson(const std::string& name, const fs::path& folder) {
  return own_lesson({name, Record(folder / "data" / (name + ".json")).text("/markdown")});
}

std::string index_page(const fs::path& folder) {
  std::string rows, missing;
  for (const Lesson& lesson : lessons())
    if (was_run(lesson, folder))
      rows += "<li>" + link_to(as_run(lesson, folder), "", "") + "</li>\n";
    else
      missing += fmt::format(
          "<li><span class=\"id\">{0}</span> {1}: <code>linea lab run {0} --out lab</code></li>\n",
          lesson.id, escape_xml(lesson.title));
  std::string html =
      "<main id=\"lesson\">\n<h1>How linear attention is trained</h1>\n"
      "<p>Lessons whose commands ran on this machine. Needed before: matrix products, exp and log, "
      "the chain rule, expectation and variance. Lessons with letters continue those before "
      "them.</p>\n<ul class=\"lessons\">\n" +
      rows + "</ul>\n";
  std::string own, runs;
  for (const std::string& name : records(folder, "own-"))
    own += "<li>" + link_to(recorded_lesson(name, folder), "", "") + "</li>\n";
  if (!own.empty()) html += "<h2>Your lessons</h2>\n<ul class=\"lessons\">\n" + own + "</ul>\n";
  for (const std::string& run : records(folder, "run-"))
    runs += fmt::format("<li><a href=\"{}.html\">{}</a></li>\n", run,
                        escape_xml(Record(folder / "data" / (run + ".json")).text("/run")));
  if (!runs.empty()) html += "<h2>Your runs</h2>\n<ul class=\"lessons\">\n" + runs + "</ul>\n";
  html += "<h2>To have at hand</h2>\n<ul>\n";
  for (const auto& [page, title] : side_page_titles())
    html += fmt::format("<li><a href=\"{}.html\">{}</a></li>\n", page, escape_xml(title));
  html += "</ul>\n";
  if (!missing.empty()) html += "<h2>Not run yet</h2>\n<ul>\n" + missing + "</ul>\n";
  return whole_page("How linear attention is trained", html + "</main>\n");
}

}  // namespace

std::string lesson_page(const Lesson& original, const Record& record, const fs::path& folder) {
  const std::string language = language_of(record);
  const Lesson& lesson = in_language(original, language);
  const std::string title = lesson.id + " \u00b7 " + lesson.title;
  const std::string body = LessonPage(lesson, record).body();
  return whole_page(
      title,
      fmt::format("<header>\n{0}</header>\n<main id=\"lesson\">\n<h1><span class=\"id\">{1}</span>"
                  "{2}</h1>\n{3}</main>\n{4}",
                  navigation(lesson, language, folder), lesson.id, escape_xml(lesson.title), body,
                  page_footer(record)),
      language);
}

std::string whole_page(const std::string& title, const std::string& body,
                       const std::string& language) {
  const std::string style = lab_style(), script = lab_script();
  return page_start(title, style, content_policy(style, script), language) +
         "<a class=\"skip\" href=\"#lesson\">Skip to the lesson</a>\n" + body + "<script>" +
         script + "</script>\n</body>\n</html>\n";
}

std::string plain_page(const std::string& title, const std::string& body,
                       const std::string& footer) {
  return whole_page(
      title,
      fmt::format("<header>\n<nav aria-label=\"Lessons\">\n<a href=\"index.html\">All lessons</a>\n"
                  "</nav>\n</header>\n<main id=\"lesson\">\n<h1>{}</h1>\n{}</main>\n{}",
                  escape_xml(title), body, footer));
}

std::string command_box(const std::string& command) {
  return "<div class=\"run\"><pre class=\"command\"><code>" + escape_xml(command) +
         "</code></pre></div>\n";
}

std::string page_footer(const Record& record) {
  return fmt::format(
      "<footer>\n<p>Made by <code>{0}</code> with Linea <code>{1}</code> on <code>{2}</code>, "
      "<code>{3:.0f}</code> threads, in <time datetime=\"PT{4:.1f}S\">{4:.1f} s</time>; numbers: "
      "<code>data/{5}</code>. To write it from them: <code>linea lab render --out lab</code></p>\n"
      "</footer>\n",
      escape_xml(record.text("/command")), escape_xml(record.text("/version")),
      escape_xml(record.text("/machine")), record.value("/threads"), record.value("/seconds"),
      escape_xml(record.file_name()));
}

size_t write_pages(const fs::path& folder) {
  size_t count = 0;
  for (const Lesson& lesson : lessons()) {
    if (!was_run(lesson, folder)) continue;
    const Record record(folder / "data" / (lesson.name + ".json"));
    write_file_atomically(folder / (lesson.name + ".html"), lesson_page(lesson, record, folder));
    ++count;
  }
  for (const std::string& name : records(folder, "own-")) {
    const Record record(folder / "data" / (name + ".json"));
    write_file_atomically(folder / (name + ".html"),
                          lesson_page(recorded_lesson(name, folder), record, folder));
    ++count;
  }
  for (const std::string& run : records(folder, "run-")) {
    const Record record(folder / "data" / (run + ".json"));
    write_file_atomically(folder / (run + ".html"), run_page(record));
    ++count;
  }
  if (count == 0) return 0;
  write_side_pages(folder);
  write_file_atomically(folder / "index.html", index_page(folder));
  return count;
}

}  // namespace linea::lab
