// DIR/report.html: the image, the table with links to the runs, and their curves.
#include <algorithm>
#include <ctime>

#include "bench/compare.h"
#include "bench/compare_table.h"
#include "data/chart.h"
#include "data/page.h"
#include "train/format.h"
#include "train/record/curves.h"
#include "train/record/report_page.h"

namespace linea::bench {
namespace {

namespace fs = std::filesystem;

constexpr double kPatience = 1200;  // seconds; a run may take long
constexpr int64_t kSmoothed = 20;   // a curve shows means of the steps / kSmoothed around each

// A table wider than the page scrolls.
constexpr const char* kStyle = R"(
.wide{overflow-x:auto}
.wide table{width:auto;min-width:100%}
.wide th{text-align:left;padding:.3rem 1rem .3rem 0;border-bottom:2px solid var(--line)}
.wide td{display:table-cell;border-bottom:1px solid var(--line);padding:.3rem 1rem .3rem 0;color:var(--ink)}
.wide td:first-child{white-space:nowrap;font-weight:600}
a{color:var(--accent)}
)";

bool is_done(const CompareRun& run) { return run.state != "unfinished" && run.state != "stopped"; }

std::string link_of(const Comparison& comparison, const std::string& task, const std::string& label,
                    const std::string& cell, const fs::path& folder) {
  for (const CompareRun& run : comparison.runs) {
    if (run.task != task || run.mechanism.label != label) continue;
    const std::string page = run.folder + "/report.html";
    std::error_code error;
    if (!fs::exists(folder / page, error)) break;
    return fmt::format("<a href=\"{}\">{}</a>", escape_xml(page), escape_xml(cell));
  }
  return escape_xml(cell);
}

std::string table_html(const Comparison& comparison, const fs::path& folder) {
  const CompareTable table = table_of(comparison);
  std::string html = "<h2>Table</h2>\n<div class=\"wide\"><table>\n<tr>";
  for (const std::string& title : table.titles)
    html += fmt::format("<th>{}</th>", escape_xml(title));
  html += "</tr>\n";
  for (size_t i = 0; i < table.rows.size(); ++i) {
    html += "<tr>";
    for (size_t cell = 0; cell < table.rows[i].size(); ++cell) {
      const bool of_task = cell >= 1 && cell <= comparison.tasks.size();
      html += fmt::format("<td>{}</td>", of_task ? link_of(comparison, comparison.tasks[cell - 1],
                                                           comparison.rows[i].mechanism.label,
                                                           table.rows[i][cell], folder)
                                                 : escape_xml(table.rows[i][cell]));
    }
    html += "</tr>\n";
  }
  html += "</table></div>\n";
  for (const std::string& note : table.notes)
    html += fmt::format("<p class=\"mute\">{}</p>\n", escape_xml(note));
  return html;
}

// The training losses of a task's first seed.
std::string curves_html(const Comparison& comparison, const fs::path& folder) {
  std::string html;
  for (const std::string& task : comparison.tasks) {
    std::vector<RunHistory> histories;
    std::vector<std::string> names;
    int64_t steps = 0;
    for (const CompareRun& run : comparison.runs) {
      if (run.task != task || run.seed != 1 || !is_run(folder / run.folder)) continue;
      histories.push_back(read_history(folder / run.folder));
      if (histories.back().last("loss") == nullptr) {
        histories.pop_back();
        continue;
      }
      names.push_back(run.mechanism.attention);
      steps = std::max(steps, run.step);
    }
    if (histories.empty()) continue;
    Chart chart = metric_chart("loss", histories, names, {.smooth = steps / kSmoothed});
    std::erase_if(chart.series, [](const Series& series) { return series.faint; });
    chart.title = task + ": loss";
    html += chart_element(chart);
  }
  return html.empty() ? "" : "<h2>Curves</h2>\n<div class=\"charts\">\n" + html + "</div>\n";
}

std::string state_html(const Comparison& comparison, const fs::path& folder) {
  const auto done = std::count_if(comparison.runs.begin(), comparison.runs.end(), is_done);
  const auto all = static_cast<int64_t>(comparison.runs.size());
  std::string html = fmt::format(
      "<p id=\"state\" data-written=\"{}\" data-patience=\"{:.0f}\">{} of {}{}; linea {}, {}</p>\n",
      std::time(nullptr), kPatience, done, plural(all, "run"),
      comparison.running ? ", running" : "", escape_xml(comparison.version),
      plural(comparison.threads, "thread"));
  if (comparison.running)
    html += fmt::format(
        "<p id=\"stale\" class=\"stale\" hidden>This page is older than usual: the program has "
        "ended, or a run takes long. <code>linea compare --resume {}</code> continues.</p>\n",
        escape_xml(shell_quote(folder.string())));
  return html + fmt::format("<progress max=\"{}\" value=\"{}\"></progress>\n", all, done);
}

}  // namespace

std::string report_of(const Comparison& comparison, const fs::path& folder) {
  const std::string name = (folder / "").parent_path().filename().string();
  const bool whole = std::all_of(comparison.runs.begin(), comparison.runs.end(), is_done);
  const char* word = comparison.running ? "running" : whole ? "finished" : "stopped";
  const std::string reload =
      !comparison.running
          ? ""
          : fmt::format("<noscript><meta http-equiv=\"refresh\" content=\"{}\"></noscript>\n",
                        kReloadSeconds);
  std::string page = page_start(name, report_style() + chart_style() + kStyle, reload) +
                     fmt::format("<h1>{0} <span id=\"badge\" class=\"{1}\">{1}</span></h1>\n",
                                 escape_xml(name), word);
  page += state_html(comparison, folder) + chart_element(compare_chart(comparison)) +
          table_html(comparison, folder) + curves_html(comparison, folder) + "<script>" +
          chart_script();
  if (comparison.running) page += report_script();
  return page + "</script>\n</body>\n</html>\n";
}

}  // namespace linea::bench
