// The figures of the pages, W1 to W15, each made of the record of one lesson, and W16 to W20 of that of
// a run.
#pragma once

#include <string>
#include <vector>

#include "lab/record.h"

namespace linea::lab {

struct Figure {
  std::string title;
  std::string body;     // images, perhaps with choices
  std::string caption;  // HTML: what the figure shows, with its numbers
  std::string table;    // the numbers, rows of <tr>
  std::string command;  // that gives them
};

// The element <figure> of a name such as w3. Where the record lacks its numbers, it says so. Error:
// ErrorKind::input, no such figure.
std::string figure_element(const std::string& name, const Record& record);

// Panels of which groups of radio buttons choose one: the panel has a label in each group. Without
// CSS, and on paper those that are `still`, all are shown, with their labels. At most three groups.
inline constexpr size_t kMaxFirst = 24, kMaxOther = 6;  // buttons of the first group, and of others
struct Panel {
  std::vector<std::string> labels;
  std::string body;
  bool still = true;
};
// `legends`: of the groups. `chosen`: the panel that is shown first. `film`: the script of the page
// replaces the buttons of the one group by a range and a button that plays.
std::string choice(const std::string& name, const std::vector<std::string>& legends,
                   const std::vector<Panel>& panels, size_t chosen, bool film = false);

// What may be wider than the page, scrolled by keys too. `look`: scroll or wide.
std::string scroll_region(const char* look, const std::string& label, const std::string& content);
std::string table_head(const std::vector<std::string>& titles);
std::string table_row(const std::vector<std::string>& cells);  // HTML

// figures_*.cpp
Figure w1(const Record& record);
Figure w2(const Record& record);
Figure w3(const Record& record);
Figure w4(const Record& record);
Figure w5(const Record& record);
Figure w6(const Record& record);
Figure w7(const Record& record);
Figure w8(const Record& record);
Figure w9(const Record& record);
Figure w10(const Record& record);
Figure w11(const Record& record);
Figure w12(const Record& record);
Figure w13(const Record& record);
Figure w14(const Record& record);
Figure w15(const Record& record);
Figure w16(const Record& record);
Figure w17(const Record& record);
Figure w18(const Record& record);
Figure w19(const Record& record);
Figure w20(const Record& record);

}  // namespace linea::lab
