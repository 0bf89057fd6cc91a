// Charts: well-formed, with everything that is asked for on them and nothing outside.
#include "data/chart.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "data/chart_circles.h"
#include "tests/data/data_helpers.h"

namespace linea {
namespace {

Chart simple_chart() {
  Chart chart;
  chart.title = "errors";
  chart.x = {"features", true, {16, 64, 256}};
  chart.y = {"mean squared error", true};
  chart.series = {{"positive, iid", {16, 64, 256}, {1e-1, 1e-2, 1e-5}, 0, 0},
                  {"trig, iid", {16, 64, 256}, {1, 0.5, 0.25}, 1, 1}};
  return chart;
}

int count(const std::string& text, const std::string& part) {
  int found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size()))
    ++found;
  return found;
}

// `name a="..." b="..."`, maybe with a / at the end.
void expect_tag(const std::string& tag, std::vector<std::string>& open) {
  if (tag[0] == '/') {
    ASSERT_FALSE(open.empty()) << tag;
    EXPECT_EQ(tag.substr(1), open.back());
    open.pop_back();
    return;
  }
  size_t at = std::min(tag.find_first_of(" /"), tag.size());
  if (tag.back() != '/') open.push_back(tag.substr(0, at));
  EXPECT_GT(at, 0u) << tag;
  while (at < tag.size() && tag[at] == ' ') {
    const size_t value = tag.find("=\"", at),
                 end = value == std::string::npos ? value : tag.find('"', value + 2);
    ASSERT_NE(end, std::string::npos) << tag;
    EXPECT_EQ(tag.substr(at + 1, value - at - 1).find_first_of(" \"/<&"), std::string::npos) << tag;
    at = end + 1;
  }
  EXPECT_TRUE(at == tag.size() || (at + 1 == tag.size() && tag[at] == '/')) << tag;
}

// Tags open and close in order around one root, attributes are quoted, every & begins a known
// entity.
void expect_well_formed(const std::string& xml) {
  const std::string head = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n";
  ASSERT_EQ(xml.rfind(head, 0), 0u);
  std::vector<std::string> open;
  size_t at = head.size();
  ASSERT_EQ(xml[at], '<');
  while ((at = xml.find('<', at)) != std::string::npos) {
    const size_t end = xml.find_first_of("<>", at + 1);
    ASSERT_NE(end, std::string::npos);
    ASSERT_EQ(xml[end], '>');
    expect_tag(xml.substr(at + 1, end - at - 1), open);
    at = end;
    if (open.empty()) {
      EXPECT_EQ(xml.substr(at), ">\n");
    }
  }
  EXPECT_TRUE(open.empty());
  for (size_t i = xml.find('&'); i != std::string::npos; i = xml.find('&', i + 1)) {
    const std::string entity = xml.substr(i, xml.find(';', i) - i + 1);
    EXPECT_TRUE(entity == "&amp;" || entity == "&lt;" || entity == "&gt;" || entity == "&quot;" ||
                entity == "&apos;")
        << entity;
  }
}

TEST(Chart, HasAllElements) {
  const std::string svg = charts_svg({simple_chart()});
  expect_well_formed(svg);
  for (const char* text :
       {">errors<", ">features<", ">mean squared error<", ">positive, iid<", ">trig, iid<", ">16<",
        ">64<", ">256<", ">1e-5<", ">0.1<", "stroke-dasharray=\"10 5\"", "#0072B2", "#D55E00"})
    EXPECT_NE(svg.find(text), std::string::npos) << text;
  EXPECT_EQ(count(svg, "<circle"), 3 + 1);  // and one in the legend
  EXPECT_EQ(svg.find("nan"), std::string::npos);
  EXPECT_EQ(svg.find("inf"), std::string::npos);
}

TEST(Chart, EscapesText) {
  Chart chart = simple_chart();
  chart.title = "a < b & \"c\" > 'd'\x01";
  chart.series[0].name = "<script>";
  chart.x.label = "&amp;";
  const std::string svg = charts_svg({chart});
  expect_well_formed(svg);
  EXPECT_NE(svg.find("a &lt; b &amp; &quot;c&quot; &gt; &apos;d&apos;?"), std::string::npos);
  EXPECT_NE(svg.find("&lt;script&gt;"), std::string::npos);
  EXPECT_NE(svg.find("&amp;amp;"), std::string::npos);
}

TEST(Chart, OmitsPointsOutsideTheAxes) {
  Chart chart = simple_chart();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  chart.series = {{"broken",
                   {1, 2, 3, 4, 5, 6},
                   {1, nan, 10, 0, -1, std::numeric_limits<double>::infinity()},
                   0,
                   0},
                  {"none", {}, {}, 2, 2}};
  chart.x.ticks = {1e9, 0};  // outside
  const std::string svg = charts_svg({chart});
  expect_well_formed(svg);
  EXPECT_EQ(count(svg, "<circle"), 2 + 1);
  EXPECT_EQ(svg.find("nan"), std::string::npos);
  EXPECT_EQ(svg.find("inf"), std::string::npos);
  expect_well_formed(charts_svg({}));
  expect_well_formed(charts_svg({Chart{}}));
  chart.series[0].y.pop_back();
  expect_error(ErrorKind::usage, {"broken", "6", "5"}, [&] { charts_svg({chart}); });
}

TEST(Chart, ChoosesTicks) {
  Chart chart;
  const auto sampled = [&](bool logarithmic, double low, double high) {
    chart.x.logarithmic = logarithmic;
    chart.series = {{"s", {low, high}, {0, 1}, 0, 0}};
    const std::string svg = charts_svg({chart});
    expect_well_formed(svg);
    return svg;
  };
  for (const char* tick : {">-0.4<", ">0<", ">0.4<"})
    EXPECT_NE(sampled(false, -0.5, 0.5).find(tick), std::string::npos) << tick;
  for (const char* tick : {">200<", ">1000<"})
    EXPECT_NE(sampled(false, 10, 1100).find(tick), std::string::npos) << tick;
  for (const char* tick : {">2<", ">5<", ">10<"})
    EXPECT_NE(sampled(true, 1, 90).find(tick), std::string::npos) << tick;
  EXPECT_EQ(sampled(true, 1, 1e8).find(">2<"), std::string::npos);
  EXPECT_NE(sampled(true, 30, 40).find(">36<"), std::string::npos);
  EXPECT_LE(count(sampled(true, 1e-300, 1e300), "<text"), 60);
  sampled(false, 3, 3);
  sampled(true, 3, 3);
  sampled(false, -1e300, 1e300);
  sampled(false, 1, std::nextafter(1.0, 2.0));
}

class ChartFile : public DataTest {};

TEST_F(ChartFile, IsWritten) {
  write_charts(path("chart.svg"), {simple_chart(), simple_chart()});
  const std::string svg = read_file(path("chart.svg"));
  expect_well_formed(svg);
  EXPECT_EQ(count(svg, ">errors<"), 2);
  expect_error(ErrorKind::write, {"nowhere"},
               [&] { write_charts(path("nowhere/chart.svg"), {simple_chart()}); });
}

TEST(Chart, WithoutMarkersIsALineAlone) {
  Chart chart = simple_chart();
  const auto discs = [&] { return count(charts_svg({chart}), "<circle"); };
  EXPECT_EQ(discs(), 4);  // three points and the legend
  chart.series[0].markers = false;
  EXPECT_EQ(discs(), 0);
}

// The x of a text, and its anchor.
std::string attribute(const std::string& tag, const std::string& name) {
  const size_t at = tag.find(" " + name + "=\"");
  if (at == std::string::npos) return "";
  const size_t start = at + name.size() + 3;
  return tag.substr(start, tag.find('"', start) - start);
}

std::vector<std::string> tags(const std::string& svg, const std::string& name) {
  std::vector<std::string> found;
  for (size_t at = svg.find("<" + name + " "); at != std::string::npos;
       at = svg.find("<" + name + " ", at + 1))
    found.push_back(svg.substr(at, svg.find("</", at) - at));
  return found;
}

// Every text stays inside at the size of narrow charts, 18 units, with letters of 0.5 em.
TEST(Chart, LongTextStaysInside) {
  Chart chart = simple_chart();
  chart.title = std::string(90, 't');
  chart.y.label = std::string(90, 'y');
  chart.series[0].name = "left out/" + std::string(60, 'n') + "/end";
  const std::string svg = charts_svg({chart});
  expect_well_formed(svg);
  EXPECT_EQ(count(svg, "viewBox=\"0 0 600 "), 1);
  EXPECT_NE(svg.find("n/end</text>"), std::string::npos) << "its end tells runs apart";
  EXPECT_EQ(svg.find("left out/n", svg.find("</g>\n<g class=\"entry\"")), std::string::npos);
  for (const std::string& tag : tags(svg, "text")) {
    const std::string text = tag.substr(tag.find('>') + 1), style = attribute(tag, "style");
    const double size = style.empty() ? 18 : std::stod(style.substr(style.find(':') + 1));
    const double width = 0.5 * size * static_cast<double>(text.size());
    const double x = std::stod(attribute(tag, "x"));
    const std::string anchor = attribute(tag, "text-anchor");
    EXPECT_GE(anchor == "end" ? x - width : anchor == "middle" ? x - width / 2 : x, 0) << tag;
    EXPECT_LE(anchor == "end" ? x : anchor == "middle" ? x + width / 2 : x + width, 600) << tag;
  }
}

// Twenty runs: no two have the same color and pattern, and each has one entry, whatever its parts.
TEST(Chart, TellsTwentyRunsApart) {
  Chart chart;
  for (int i = 0; i < 20; ++i)
    for (const char* part : {"training", "validation"})
      chart.series.push_back({"run " + std::to_string(i),
                              {0, 1},
                              {1.0 * i, 2.0 * i},
                              i % kChartColors,
                              i / kChartColors,
                              part == std::string("validation"),
                              part});
  const std::string svg = charts_svg({chart});
  expect_well_formed(svg);
  std::set<std::string> looks, places;
  const size_t legend = svg.find("<g class=\"entry\"");
  for (size_t at = legend; at != std::string::npos; at = svg.find("<g class=\"entry\"", at + 1)) {
    const std::string entry = svg.substr(at, svg.find("</text>", at) - at);
    looks.insert(attribute(entry, "color") + attribute(entry, "stroke-dasharray"));
    const std::string text = entry.substr(entry.find("<text"));
    places.insert(attribute(text, "x") + "," + attribute(text, "y"));
  }
  EXPECT_EQ(looks.size(), 20u);
  EXPECT_EQ(places.size(), 20u);
  for (const char* part : {">training</text>", ">validation</text>"})
    EXPECT_EQ(count(svg, part), 1);
  EXPECT_EQ(count(svg, "<title>run 19, validation</title>"), 1);
}

// What the script shows: exact values, in the order of the path's points.
TEST(Chart, HoldsTheValuesOfItsPoints) {
  Chart chart;
  chart.series = {{"s", {1, 2.5, 3}, {0.651234, std::nan(""), 1e-9}}};
  const std::string svg = charts_svg({chart});
  expect_well_formed(svg);
  EXPECT_EQ(count(svg, "data-v=\"1,0.65123 3,1e-09\""), 1);
  EXPECT_EQ(count(svg, "<script>"), 1);
  EXPECT_EQ(chart_script().find_first_of("<&"), std::string::npos) << "XML would need escapes";
  EXPECT_EQ(count(svg, "prefers-color-scheme:dark"), 2);
  chart.series[0].faint = true;
  EXPECT_EQ(count(charts_svg({chart}), "data-v="), 0);
}

TEST(Chart, LabelsOneAxisAlike) {
  Chart chart;
  const auto labels = [&](double low, double high, bool logarithmic) {
    chart.y.logarithmic = logarithmic;
    chart.series = {{"s", {0, 1}, {low, high}}};
    const std::string svg = charts_svg({chart});
    std::vector<std::string> found;
    for (const std::string& tag : tags(svg, "text"))
      if (attribute(tag, "text-anchor") == "end") found.push_back(tag.substr(tag.find('>') + 1));
    return found;
  };
  using Labels = std::vector<std::string>;
  EXPECT_EQ(labels(0.65, 0.74, false), (Labels{"0.66", "0.68", "0.70", "0.72", "0.74"}));
  EXPECT_EQ(labels(0, 30000, false), (Labels{"0", "5k", "10k", "15k", "20k", "25k", "30k"}));
  EXPECT_EQ(labels(0.65, 4, true), (Labels{"0.6", "0.7", "0.8", "1", "1.5", "2", "3", "4"}));
}

// A marker each at the first to 25th point would hide a long curve's line.
TEST(Chart, LimitsMarkers) {
  Chart chart;
  Series series;
  for (int i = 0; i < 1000; ++i) {
    series.x.push_back(i);
    series.y.push_back(i % 7);
  }
  chart.series = {series};
  EXPECT_EQ(count(charts_svg({chart}), "<circle"), 25);
  series.markers = false;
  series.x = series.y = {1};
  chart.series = {series};
  EXPECT_EQ(count(charts_svg({chart}), "<circle"), 1) << "a line of one point is invisible";
}

Chart circles() {
  Chart chart{"circles", {"speed", true, {0.5, 1, 2}}, {"score"}, {}};
  chart.series = {{"one", {1, 2}, {50, 40}}, {"two", {0.5, -1}, {45, 45}, 1}};
  chart.series[0].area = {1, 0.25};
  chart.series[0].error = {2, 0};
  chart.series[0].labels = {"first", "second <"};
  chart.series[1].area = {2, 1};  // a point is outside of the axis
  chart.series[1].labels = {"third", "nowhere"};
  chart.series[1].hollow = true;
  chart.area = "memory";
  chart.description = "first & others";
  return chart;
}

TEST(Chart, AreasOfCirclesAreInProportion) {
  const std::string svg = charts_svg({circles()});
  expect_well_formed(svg);
  std::map<std::string, double> areas;  // by label
  for (size_t at = svg.find("<circle"); at != std::string::npos; at = svg.find("<circle", at + 1)) {
    const size_t end = svg.find('>', at), title = svg.find("<title>", at);
    if (title != end + 1) continue;  // of the legend
    const double r = std::stod(svg.substr(svg.find(" r=\"", at) + 4));
    areas[svg.substr(title + 7, svg.find(':', title) - title - 7)] = r * r;
  }
  ASSERT_EQ(areas.size(), 3u);
  EXPECT_NEAR(areas.at("third") / areas.at("first"), 2, 1e-3);
  EXPECT_NEAR(areas.at("first") / areas.at("second &lt;"), 4, 1e-3);
  EXPECT_EQ(count(svg, "stroke-dasharray=\"4 3\""), 2);  // and one in the legend
  EXPECT_NE(svg.find("<desc>first &amp; others</desc>"), std::string::npos);
  EXPECT_EQ(svg.find("nowhere"), std::string::npos);
}

// Fifty circles on one place: no label covers another, all are in the frame.
TEST(Chart, LabelsAreMovedApart) {
  std::vector<Circle> all;
  for (int i = 0; i < 50; ++i) all.push_back({300.0 + i, 400.0 + 3 * (i % 7), 10, "label", 80, 20});
  const std::vector<PlacedLabel> placed = place_labels(all, {0, 0, 600, 900});
  ASSERT_EQ(placed.size(), all.size());
  const auto left = [](const PlacedLabel& label) {
    return label.x - (label.anchor[0] == 's' ? 0 : label.anchor[0] == 'm' ? 40 : 80);
  };
  for (size_t i = 0; i < placed.size(); ++i) {
    EXPECT_GE(left(placed[i]), 0);
    EXPECT_LE(left(placed[i]) + 80, 600);
    for (size_t j = 0; j < i; ++j)
      EXPECT_TRUE(std::fabs(left(placed[i]) - left(placed[j])) > 79.9 ||
                  std::fabs(placed[i].baseline - placed[j].baseline) > 19.9)
          << i << " " << j;
  }
}

}  // namespace
}  // namespace linea
