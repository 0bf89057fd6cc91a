// Pages that no run makes: letters, questions, teacher, and a map of all attentions.
#include <algorithm>
#include <regex>

#include "base/error.h"
#include "bench/compare.h"
#include "data/chart.h"
#include "data/files.h"
#include "lab/figures.h"
#include "lab/markdown.h"
#include "lab/number.h"
#include "lab/pages.h"
#include "nn/attention.h"

namespace linea::lab {
namespace {

constexpr const char* kMap = "What each attention keeps";

// Without links to lessons that were not run.
std::string with_links(std::string html, const std::filesystem::path& folder) {
  static const std::regex link("<a href=\"((?:[0-9]{2}|[a-z]|run)-[^#\"]*)[^\"]*\">([^<]*)</a>");
  std::smatch found;
  for (size_t first = 0; std::regex_search(html.cbegin() + static_cast<ptrdiff_t>(first),
                                           html.cend(), found, link);) {
    const size_t at = first + static_cast<size_t>(found.position()), size = found[0].str().size();
    const std::string text = found[2];
    const bool there = std::filesystem::exists(folder / found[1].str());
    first = at + (there ? size : text.size());
    if (!there) html.replace(at, size, text);
  }
  return html;
}

std::string body_of(const Lesson& page) {
  std::string html;
  for (const Block& block : page.blocks)
    if (block.kind == "run")
      html += command_box(block.lines.at(0));
    else
      html += "<div class=\"wide\">\n" +
              to_html(fmt::format("{}\n", fmt::join(block.lines, "\n")),
                      [](const std::string&, const std::string& text) {
                        return published_number(text, "docs");
                      }) +
              "</div>\n";
  return html;
}

struct Taught {
  const char *attention, *lesson;
};
constexpr Taught kTaught[] = {{"softmax", "01-mean"},     {"linear", "02-brackets"},
                              {"performer", "07-kernel"}, {"soft-vq", "b-codes"},
                              {"vq", "b-codes"},          {"gdn", "c-delta"}};

std::string map_body(const std::filesystem::path& folder) {
  std::string rows;
  for (const AttentionEntry& entry : attentions()) {
    std::string lesson = "-";
    for (const Taught& taught : kTaught)
      if (entry.name == taught.attention) {
        const std::string page = std::string(taught.lesson) + ".html";
        lesson = std::filesystem::exists(folder / page)
                     ? fmt::format("<a href=\"{}\">{}</a>", page, taught.lesson)
                     : taught.lesson;
      }
    rows += fmt::format(
        "<tr><td><code>{}</code></td><td class=\"id\">{}</td><td class=\"id\">{}</td><td>{}"
        "</td><td class=\"id\">{}</td></tr>\n",
        entry.name, escape_xml(entry.summary), escape_xml(entry.source),
        bench::growth_of(entry.name), lesson);
  }
  return "<p>All attentions of this program, what each computes, where it comes from, and whether "
         "its state is constant or grows when it samples (-: it has no causal form, or needs an "
         "image). Update rules of <code>linear</code> are in lessons A and C.</p>\n" +
         scroll_region("wide", "All attentions",
                       "<table>\n" +
                           table_head({"attention", "computes", "source", "state", "lesson"}) +
                           rows + "</table>\n") +
         "<h2>What Linea lacks</h2>\n<p>State spaces whose transition is no decay (S4), mixtures "
         "of "
         "experts, attention between two sequences, and kernels for long documents on several "
         "devices.</p>\n";
}

}  // namespace

std::vector<std::pair<std::string, std::string>> side_page_titles() {
  std::vector<std::pair<std::string, std::string>> titles;
  for (const Lesson& page : side_pages()) titles.emplace_back(page.name, page.title);
  titles.emplace_back("map", kMap);
  return titles;
}

void write_side_pages(const std::filesystem::path& folder) {
  for (const Lesson& page : side_pages())
    write_file_atomically(folder / (page.name + ".html"),
                          plain_page(page.title, with_links(body_of(page), folder)));
  write_file_atomically(folder / "map.html", plain_page(kMap, map_body(folder)));
}

}  // namespace linea::lab
