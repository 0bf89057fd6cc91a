#include "lab/figures.h"

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

std::string choice(const std::string& name, const std::string& legend,
                   const std::vector<Panel>& panels, size_t chosen, bool film) {
  std::string buttons, bodies;
  for (size_t i = 0; i < panels.size(); ++i) {
    buttons += fmt::format(
        "<input type=\"radio\" name=\"{0}\" id=\"{0}-{1}\"{2}><label for=\"{0}-{1}\">{3}</label>\n",
        name, i + 1, i == chosen ? " checked" : "", escape_xml(panels[i].label));
    bodies += fmt::format("<div{}>\n{}</div>\n", panels[i].still ? " class=\"still\"" : "",
                          panels[i].body);
  }
  return fmt::format(
      "<fieldset class=\"choice{}\">\n<legend>{}</legend>\n{}<div class=\"panels\">\n{}</div>\n"
      "</fieldset>\n",
      film ? " film" : "", legend, buttons, bodies);
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
