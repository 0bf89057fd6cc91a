// The page of a run: what its folder says, then W16 to W20.
#include "lab/run_page.h"

#include "base/error.h"
#include "data/chart.h"
#include "lab/figures.h"
#include "lab/number.h"
#include "lab/pages.h"

namespace linea::lab {
namespace {

// With its line breaks, which escape_xml() replaces.
std::string preformatted(const std::string& text) {
  std::string html;
  for (size_t first = 0, end = 0; end != std::string::npos; first = end + 1) {
    end = text.find('\n', first);
    html += escape_xml(text.substr(first, end - first)) + "\n";
  }
  return "<pre class=\"output\" tabindex=\"0\"><code>" + html + "</code></pre>\n";
}

std::string sample(const Record& record) {
  if (!record.has("/sample/bytes")) return "";
  const std::string name = escape_xml(record.text("/sample/name"));
  const std::string bytes = record.text("/sample/bytes");
  return "<h2>Samples</h2>\n" +
         (record.flag("/sample/image")
              ? fmt::format(
                    "<img class=\"matrix\" alt=\"Images that the model sampled at {}, of its "
                    "own random numbers\" src=\"data:image/png;base64,{}\">\n",
                    name, bytes)
              : preformatted(bytes)) +
         fmt::format("<p class=\"mute\"><code>{}</code></p>\n", name);
}

std::string continuations(const Record& record) {
  if (!record.has("/figures/w18/continuations")) return "";
  std::string html = "<h2>Continuations</h2>\n<p>The model is given</p>\n" +
                     preformatted(record.text("/figures/w18/prompt")) +
                     "<p>and continues it:</p>\n";
  for (size_t i = 0; i < record.size("/figures/w18/continuations"); ++i)
    html += preformatted(record.text(fmt::format("/figures/w18/continuations/{}", i)));
  return html;
}

std::string commands(const Record& record) {
  std::string html = "<h2>Commands</h2>\n";
  for (size_t i = 0; i < record.size("/commands"); ++i)
    html += "<div class=\"run\"><pre class=\"command\"><code>" +
            escape_xml(record.text(fmt::format("/commands/{}", i))) + "</code></pre></div>\n";
  return record.size("/commands") > 0 ? html : "";
}

std::string settings(const Record& record) {
  std::string rows;
  for (size_t i = 0; i < record.size("/settings"); ++i) {
    const std::string at = fmt::format("/settings/{}", i);
    std::string cells;
    for (const char* part : {"/0", "/1"})
      cells += "<td><code>" + escape_xml(record.text(at + part)) + "</code></td>";
    rows += "<tr>" + cells + "</tr>\n";
  }
  return "<details><summary>Settings</summary>\n<div class=\"wide\" tabindex=\"0\" role=\"region\" "
         "aria-label=\"Settings of the run\">\n<table>\n" +
         table_head({"setting", "value"}) + rows + "</table>\n</div>\n</details>\n";
}

}  // namespace

std::string run_page(const Record& record) {
  const std::string name = record.text("/run");
  std::string figures;
  for (const char* figure : {"w16", "w17", "w18", "w19", "w20"})
    if (record.has(fmt::format("/figures/{}", figure)) &&
        !record.has(fmt::format("/figures/{}/continuations", figure)))
      figures += figure_element(figure, record);
  return whole_page(
      name,
      fmt::format("<header>\n<nav aria-label=\"Lessons\">\n<a href=\"index.html\">All lessons</a>\n"
                  "</nav>\n</header>\n<main id=\"lesson\">\n<h1>{}</h1>\n<p><code>{}</code> on "
                  "<code>{}</code>, step {} of {}.</p>\n",
                  escape_xml(name), escape_xml(record.text("/attention")),
                  escape_xml(record.text("/task")), record.measured("/step"),
                  record.measured("/steps")) +
          sample(record) + figures + continuations(record) + commands(record) + settings(record) +
          "</main>\n" + page_footer(record));
}

}  // namespace linea::lab
