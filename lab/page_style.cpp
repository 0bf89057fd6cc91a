// The look of the pages.
#include "data/chart.h"
#include "data/page.h"
#include "lab/figures.h"
#include "lab/pages.h"

#include "base/error.h"

namespace linea::lab {
namespace {

constexpr const char* kStyle = R"(
:root{--second:#B84A00;--good:#00694c;--bad:#b3261e}
@media (prefers-color-scheme:dark){:root{--second:#F07F3C;--good:#2DC79A;--bad:#ff8a80}}
body{max-width:48rem}
a{color:var(--accent)}
:focus-visible{outline:3px solid var(--accent);outline-offset:2px}
.skip{position:absolute;left:-99rem}
.skip:focus{position:static}
nav{display:flex;flex-wrap:wrap;gap:.3rem 1.25rem;margin-bottom:1.5rem}
h1 .id{color:var(--mute);margin-right:.5rem}
p,ul,ol{margin:.7rem 0}
pre{margin:.7rem 0}
pre.output,pre.code{white-space:pre;overflow-x:auto}
pre.output{border-left:.3rem solid var(--line)}
code{overflow-wrap:anywhere}
p code,li code,summary code{background:var(--soft);border-radius:.2rem;padding:0 .15rem}
.formula{display:flex;flex-wrap:wrap;gap:.6rem 2rem;align-items:center;overflow:auto hidden;padding:.4rem 0}
.formula math{font-size:1.15rem}
.predict,.question{border:1px solid var(--line);border-radius:.4rem;padding:.2rem 1rem;margin:.9rem 0}
.question h3{font-size:1rem;margin:.6rem 0 0}
.run{position:relative}
button,.answer input{font:inherit;font-size:.8rem;color:var(--ink);background:var(--page);border:1px solid var(--mute);border-radius:.3rem;padding:.2rem .6rem;min-height:1.6rem}
.answer{display:flex;flex-wrap:wrap;gap:.6rem;align-items:center;margin:.6rem 0}
.run button{position:absolute;right:.4rem;top:.4rem}
.cell{margin:.6rem 0}
.cell label,.cell output{display:block}
.ok{color:var(--good)}.differs{color:var(--bad)}
.figure{border-top:3px solid var(--accent);padding-top:.4rem;margin:1.5rem 0}
.figure .title{font-weight:600;margin:.2rem 0 .6rem}
figcaption{color:var(--ink);margin:.6rem 0}
svg.w{display:block;width:100%;max-width:36rem;height:auto;font:13px system-ui,-apple-system,"Segoe UI",Roboto,Arial,sans-serif;font-variant-numeric:tabular-nums}
.scroll{overflow-x:auto}
.scroll svg.w{min-width:34rem}
svg.w text{fill:var(--ink)}
svg.w .m{fill:var(--mute)}
svg.w .a{fill:var(--accent)}
svg.w .b{fill:var(--second)}
svg.w .i{fill:var(--ink)}
svg.w .s{fill:var(--soft);stroke:var(--mute);stroke-width:.5}
svg.w .l{stroke:var(--mute);fill:none}
svg.w .la{stroke:var(--accent);fill:none}
svg.w .da,svg.w .db{fill:none;stroke:var(--accent);stroke-width:3.4;stroke-linecap:round;stroke-opacity:.55}
svg.w .db{stroke:var(--second)}
svg.w .lb{stroke:var(--second);fill:none}
.matrix{image-rendering:pixelated;max-width:100%;height:auto;border:1px solid var(--line)}
.pair{display:flex;flex-wrap:wrap;gap:1rem 2rem;align-items:flex-start}
.pair p{margin:.2rem 0}
.below svg.w{width:11.25rem}.rows svg.w{width:5.25rem}
fieldset{border:0;padding:0;margin:0;min-width:0}
legend{padding:0;float:left;margin-right:.6rem}
.choice fieldset{margin:.2rem 0}
.choice label{margin:0 .7rem 0 .15rem}
input[type=range]{width:min(100%,24rem);vertical-align:middle}
.panels{clear:both;padding-top:.6rem}
.wide{overflow-x:auto}
th{text-align:left;padding:.3rem 1rem .3rem 0;border-bottom:2px solid var(--line)}
footer{margin-top:3rem;border-top:1px solid var(--line);color:var(--mute);font-size:.875rem}
@media print{
body{font-size:9pt;line-height:1.35;max-width:none;padding:0}
h1{font-size:15pt}h2{font-size:11pt;margin:.8rem 0 .3rem;break-after:avoid}
pre,code{font-size:7pt;line-height:1.3}
pre{white-space:pre-wrap;padding:.3rem .5rem;margin:.3rem 0}
p,ul,ol{margin:.3rem 0}
.formula math{font-size:1rem}
nav,.skip,button,.choice fieldset,output,.answer,.cell,.question details{display:none}
.panels>.moving{display:none}.panels>.still{display:inline-block;vertical-align:top;width:32%}
.chart,.panels~.chart{max-width:20rem;display:inline-block}
svg.w{max-width:20rem}.panels svg.w,.scroll svg.w{min-width:0;max-width:100%}
.panels .which{font-weight:600}
.matrix{max-width:45%}
details::details-content{content-visibility:visible;display:block;height:auto}
.wide table{font-size:7pt;width:auto}
td,th{padding:0 .8rem 0 0}
.figure{break-inside:auto}svg,img{break-inside:avoid}
}
)";

}  // namespace

// A panel is hidden where a button of another label is checked, in any group.
std::string lab_style() {
  std::string hidden;
  for (size_t group = 1; group <= 3; ++group)
    for (size_t i = 1; i <= (group == 1 ? kMaxFirst : kMaxOther); ++i)
      hidden +=
          fmt::format("{}.choice:has(>.g{}>input:nth-of-type({}):checked)>.panels>:not(.g{}-{})",
                      hidden.empty() ? "" : ",", group, i, group, i);
  return page_style() + chart_style() + kStyle +
         "@supports selector(:has(*)){@media screen{.which," + hidden + "{display:none}}}\n";
}

}  // namespace linea::lab
