#include "data/chart_style.h"

#include <fmt/format.h>

#include <algorithm>

namespace linea {
namespace {

// Okabe & Ito 2008, "Color universal design", without yellow, which is too pale on white. For dark
// pages: the same hues, lighter.
constexpr const char* kLight[kChartColors] = {"#0072B2", "#D55E00", "#009E73", "#CC79A7",
                                              "#222222", "#56B4E9", "#E69F00"};
constexpr const char* kDark[kChartColors] = {"#3D94D6", "#F07F3C", "#2DC79A", "#E09CC6",
                                             "#E8E8E8", "#9AD8FF", "#F7BC45"};
constexpr const char* kDashes[kChartDashes] = {"", "10 5", "2 4", "10 4 2 4"};

// Reads the points of a curve from its path and their values from data-v, "x,y x,y ...". Without
// the characters that XML would escape. Under the pointer: of each curve the point nearest in x, at
// most eight of them, those nearest in y.
constexpr const char* kScript = R"(
document.querySelectorAll('.chart').forEach(function(chart){
  var groups=[].slice.call(chart.querySelectorAll('[data-n]'));
  var highlight=function(n){groups.forEach(function(g){
    g.classList.toggle('dim',n!==null?g.dataset.n!==n:false);});};
  chart.querySelectorAll('.entry').forEach(function(entry){
    entry.onpointerenter=function(){highlight(entry.dataset.n);};
    entry.onpointerleave=function(){highlight(null);};});
  chart.querySelectorAll('.plot').forEach(function(plot){
    var make=function(name,values,parent){
      var e=document.createElementNS('http://www.w3.org/2000/svg',name);
      Object.keys(values).forEach(function(k){e.setAttribute(k,values[k]);});
      return parent.appendChild(e);};
    var curves=[].map.call(plot.querySelectorAll('.curve'),function(path){
      var title=path.querySelector('title'),v=path.dataset.v.split(' '),gap=0;
      var points=path.getAttribute('d').slice(1).split(/[A-Z]/).map(function(text,i){
        var at=text.split(' '),value=v[i].split(',');
        return {px:+at[0],py:+at[1],x:value[0],y:value[1]};});
      points.forEach(function(p,i){if(i)gap=Math.max(gap,p.px-points[i-1].px);});
      title.remove();
      var g=path.parentNode;
      return {group:g,paint:{'class':g.getAttribute('class'),color:g.getAttribute('color'),
        fill:'currentColor'},name:title.textContent,points:points,reach:Math.max(12,gap/2+1)};});
    var near=function(curve,px){
      var best=null;
      curve.points.forEach(function(p){
        var d=Math.abs(p.px-px);if(!best||best.d>d)best={d:d,p:p,curve:curve};});
      return best;};
    var area=plot.querySelector('.area'),side=function(name){return +area.getAttribute(name);};
    var tip=make('g',{'class':'tip',visibility:'hidden'},plot);
    var dot=function(curve,x,y,parent){
      var e=make('circle',curve.paint,parent);
      e.setAttribute('cx',x);e.setAttribute('cy',y);e.setAttribute('r',4);};
    var hide=function(){tip.setAttribute('visibility','hidden');highlight(null);};
    area.onpointerleave=hide;
    area.onpointerdown=area.onpointermove=function(event){
      var at=new DOMPoint(event.clientX,event.clientY).matrixTransform(plot.getScreenCTM().inverse());
      var rows=[];
      curves.forEach(function(curve){
        var best=near(curve,at.x);if(curve.reach>=best.d)rows.push(best);});
      if(!rows.length)return hide();
      rows.sort(function(a,b){return Math.abs(a.p.py-at.y)-Math.abs(b.p.py-at.y);});
      var nearest=rows[0];
      rows=rows.map(function(row){return row===nearest?row:near(row.curve,nearest.p.px);});
      rows=rows.slice(0,8).sort(function(a,b){return a.p.py-b.p.py;});
      highlight(50>Math.abs(nearest.p.py-at.y)?nearest.curve.group.dataset.n:null);
      tip.replaceChildren();
      make('path',{d:'M'+nearest.p.px+' '+side('y')+'v'+side('height')},tip);
      rows.forEach(function(row){
        dot(row.curve,row.p.px,row.p.py,tip);});
      var card=make('g',{},tip),box=make('rect',{rx:4},card),text=make('text',{'class':'ink',fill:'#1f2328'},card);
      var size=parseFloat(getComputedStyle(text).fontSize),line=1.35*size;
      var put=function(x,y,values,words){
        values.x=x;values.y=y;make('tspan',values,text).textContent=words;};
      put(0,0,{'class':'mute',fill:'#59636e'},plot.dataset.x+' '+nearest.p.x);
      rows.forEach(function(row,i){
        dot(row.curve,4,(i+1)*line-.35*size,card);
        put(14,(i+1)*line,row===nearest?{'font-weight':'bold'}:{},row.p.y+'\u2002'+row.curve.name+
          (row.p.x===nearest.p.x?'':' ('+plot.dataset.x+' '+row.p.x+')'));});
      var b=text.getBBox(),w=Math.max(b.width,14)+24,h=b.height+14;
      box.setAttribute('x',b.x-10);box.setAttribute('y',b.y-7);
      box.setAttribute('width',w);box.setAttribute('height',h);
      var x=nearest.p.px+14;
      if(x+w>side('x')+side('width')+16)x=Math.max(4,nearest.p.px-14-w);
      var y=Math.max(side('y'),Math.min(at.y-h/2,side('y')+side('height')-h));
      card.setAttribute('transform','translate('+(x+10-b.x)+' '+(y+7-b.y)+')');
      tip.setAttribute('visibility','visible');};});
});
)";

size_t cyclic(int index, int count) { return static_cast<size_t>(std::max(index, 0) % count); }

}  // namespace

std::string color_attributes(int color) {
  const size_t index = cyclic(color, kChartColors);
  return fmt::format("class=\"series c{}\" color=\"{}\"", index, kLight[index]);
}

std::string line_attributes(const Series& series) {
  const std::string dashes = kDashes[cyclic(series.dash, kChartDashes)];
  return fmt::format(
      "fill=\"none\" stroke=\"currentColor\" stroke-width=\"{}\" stroke-linejoin=\"round\"{}{}",
      series.width, dashes.empty() ? "" : fmt::format(" stroke-dasharray=\"{}\"", dashes),
      series.faint ? " opacity=\"0.3\"" : "");
}

std::string marker(double x, double y, const Series& series) {
  const std::string paint = series.hollow
                                ? "class=\"hollow\" fill=\"#fff\" stroke=\"currentColor\" "
                                  "stroke-width=\"1.5\""
                                : "fill=\"currentColor\"";
  switch (cyclic(series.dash, kChartDashes)) {
    case 0:
      return fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.4\" {}/>\n", x, y, paint);
    case 1:
      return fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"6.4\" height=\"6.4\" {}/>\n",
                         x - 3.2, y - 3.2, paint);
    case 2:
      return fmt::format("<path d=\"M{:.1f} {:.1f}l4.2 7.4h-8.4z\" {}/>\n", x, y - 4.7, paint);
    default:
      return fmt::format("<path d=\"M{:.1f} {:.1f}l4.4 4.4l-4.4 4.4l-4.4 -4.4z\" {}/>\n", x,
                         y - 4.4, paint);
  }
}

std::string circle_attributes(bool hollow) {
  return std::string("stroke=\"currentColor\" ") +
         (hollow ? "fill=\"none\" stroke-dasharray=\"4 3\" pointer-events=\"all\""
                 : "fill=\"currentColor\" fill-opacity=\"0.5\"");
}

// Attributes of the elements give the look on a light page, also to programs that ignore styles.
std::string chart_style() {
  std::string style = R"(
.chart{font-family:system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif}
.chart text{font-variant-numeric:tabular-nums}
.chart .series,.chart .entry{transition:opacity .1s}
.chart .dim{opacity:.12}
.chart .area{fill:transparent;touch-action:pan-y}
.chart .tip{pointer-events:none}
.chart .tip rect{fill:#fff;stroke:#c8ced6}
.chart .tip path{stroke:#8b949e;stroke-dasharray:3 3;fill:none}
@media (max-width:560px){.chart text{font-size:18px}.chart .title{font-size:20px}}
@media (prefers-color-scheme:dark){
.chart .page,.chart .hollow,.chart .tip rect{fill:#0d1117}.chart .tip rect{stroke:#484f58}
.chart .ink{fill:#e6edf3}.chart .mute{fill:#9da7b3}.chart .grid{stroke:#262c36}.chart .axis{stroke:#6e7681}
)";
  for (size_t i = 0; i < kChartColors; ++i)
    style += fmt::format(".chart .c{}{{color:{}}}", i, kDark[i]);
  return style + "}\n";
}

std::string chart_script() { return kScript; }

}  // namespace linea
