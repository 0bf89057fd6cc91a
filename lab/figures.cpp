#include "lab/figures.h"

#include <algorithm>
#include <iterator>

#include "base/error.h"
#include "data/chart.h"

namespace linea::lab {
namespace {

struct Entry {
  const char* name;
  Figure (*make)(const Record&);
};
constexpr Entry kFigures[] = {{"w1", w1},   {"w2", w2},   {"w3", w3},   {"w4", w4},   {"w5", w5},
                              {"w6", w6},   {"w7", w7},   {"w8", w8},   {"w9", w9},   {"w10", w10},
                              {"w11", w11}, {"w12", w12}, {"w13", w13}, {"w14", w14}, {"w15", w15},
                              {"w16", w16}, {"w17", w17}, {"w18", w18}, {"w19", w19}, {"w20", w20}};

}  // namespace

std::string figure_element(const std::string& name, const Record& record) {
  for (const Entry& entry : kFigures) {
    if (name != entry.name) continue;
    try {
      const Figure figure = entry.make(record);
      return fmt::format(
          "<figure class=\"figure\" id=\"{}\">\n<p class=\"title\">{}</p>\n{}<figcaption>{}"
          "</figcaption>\n<details><summary>The numbers</summary>\n{}<p class=\"mute\">From "
          "<code>{}</code>, saved in <code>data/{}</code></p>\n</details>\n</figure>\n",
          name, escape_xml(figure.title), figure.body, figure.caption,
          scroll_region("wide", "Numbers of the figure", "<table>\n" + figure.table + "</table>\n"),
          escape_xml(figure.command), escape_xml(record.file_name()));
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::input) throw;
      return fmt::format("<p class=\"mute\" id=\"{}\">There is no figure here: {}.</p>\n", name,
                         escape_xml(error.what()));
    }
  }
  fail(ErrorKind::input, "there is no figure '{}'", name);
}

namespace {

// The labels of one group, each once, as the panels have them in turn.
std::vector<std::string> labels_of(const std::vector<Panel>& panels, size_t group) {
  std::vector<std::string> labels;
  for (const Panel& panel : panels)
    if (std::find(labels.begin(), labels.end(), panel.labels.at(group)) == labels.end())
      labels.push_back(panel.labels[group]);
  return labels;
}

}  // namespace

std::string choice(const std::string& name, const std::vector<std::string>& legends,
                   const std::vector<Panel>& panels, size_t chosen, bool film) {
  require(legends.size() <= 3, "{} groups of a choice, of 3 at most", legends.size());
  std::vector<std::string> looks(panels.size()), titles(panels.size());
  std::string html = fmt::format("<div class=\"choice{}\">\n", film ? " film" : "");
  for (size_t group = 0; group < legends.size(); ++group) {
    const std::vector<std::string> labels = labels_of(panels, group);
    require(labels.size() <= (group == 0 ? kMaxFirst : kMaxOther), "{} choices of {}",
            labels.size(), legends[group]);
    const std::string radio = legends.size() == 1 ? name : name + static_cast<char>('a' + group);
    html +=
        fmt::format("<fieldset class=\"g{}\">\n<legend>{}</legend>\n", group + 1, legends[group]);
    for (size_t i = 0; i < labels.size(); ++i) {
      html += fmt::format(
          "<input type=\"radio\" name=\"{0}\" id=\"{0}-{1}\"{2}><label "
          "for=\"{0}-{1}\">{3}</label>\n",
          radio, i + 1, labels[i] == panels.at(chosen).labels[group] ? " checked" : "",
          escape_xml(labels[i]));
      for (size_t j = 0; j < panels.size(); ++j)
        if (panels[j].labels[group] == labels[i]) {
          looks[j] += fmt::format(" g{}-{}", group + 1, i + 1);
          titles[j] += fmt::format("{}{} {}", group == 0 ? "" : ", ", legends[group], labels[i]);
        }
    }
    html += "</fieldset>\n";
  }
  html += "<div class=\"panels\">\n";
  for (size_t j = 0; j < panels.size(); ++j)
    html += fmt::format("<div class=\"{}{}\">\n<p class=\"which id\">{}</p>\n{}</div>\n",
                        panels[j].still ? "still" : "moving", looks[j], escape_xml(titles[j]),
                        panels[j].body);
  return html + "</div>\n</div>\n";
}

std::string scroll_region(const char* look, const std::string& label, const std::string& content) {
  return fmt::format(
      "<div class=\"{}\" tabindex=\"0\" role=\"region\" aria-label=\"{}\">\n{}</div>\n", look,
      label, content);
}

std::string table_head(const std::vector<std::string>& titles) {
  std::string row;
  for (const std::string& title : titles) row += "<th scope=\"col\">" + title + "</th>";
  return "<tr>" + row + "</tr>\n";
}

std::string table_row(const std::vector<std::string>& cells) {
  std::string row;
  for (const std::string& cell : cells) row += "<td>" + cell + "</td>";
  return "<tr>" + row + "</tr>\n";
}

}  // namespace linea::lab
