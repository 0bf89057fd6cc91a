// The page of a run: what its folder says, then W16 to W20.
#include "lab/run_page.h"

#include "base/error.h"
#include "data/chart.h"
#include "data/page.h"
#include "lab/figures.h"
#include "lab/number.h"
#include "lab/pages.h"

namespace linea::lab {
namespace {

std::string preformatted(const std::string& text) {
  return "<pre class=\"output\" tabindex=\"0\"><code>" + escape_lines(text) + "</code></pre>\n";
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
  std::string html;
  for (size_t i = 0; i < record.size("/commands"); ++i)
    html += command_box(record.text(fmt::format("/commands/{}", i)));
  return html.empty() ? "" : "<h2>Commands</h2>\n" + html;
}

std::string settings(const Record& record) {
  std::string rows = table_head({"setting", "value"});
  for (const std::string& key : record.keys("/settings"))
    rows += table_row({"<code>" + escape_xml(key) + "</code>",
                       "<code>" + escape_xml(record.text("/settings/" + key)) + "</code>"});
  return "<details><summary>Settings</summary>\n" +
         scroll_region("wide", "Settings of the run", "<table>\n" + rows + "</table>\n") +
         "</details>\n";
}

}  // namespace

std::string run_page(const Record& record) {
  std::string figures;
  for (const std::string& name : record.keys("/figures"))
    if (!record.has("/figures/" + name + "/continuations")) figures += figure_element(name, record);
  return plain_page(
      record.text("/run"),
      fmt::format("<p><code>{}</code> on <code>{}</code>, step {} of {}.</p>\n",
                  escape_xml(record.text("/attention")), escape_xml(record.text("/task")),
                  record.measured("/step"), record.measured("/steps")) +
          sample(record) + figures + continuations(record) + commands(record) + settings(record),
      page_footer(record));
}

}  // namespace linea::lab
