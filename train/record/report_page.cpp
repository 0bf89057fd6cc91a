#include "train/record/report_page.h"

#include <fmt/format.h>

namespace linea {

std::string report_style() {
  return R"(
:root{color-scheme:light dark;--ink:#1f2328;--mute:#59636e;--line:#d8dee4;--soft:#f5f7f9;--page:#fff;--accent:#0072B2}
@media (prefers-color-scheme:dark){:root{--ink:#e6edf3;--mute:#9da7b3;--line:#30363d;--soft:#161b22;--page:#0d1117;--accent:#3D94D6}}
*{box-sizing:border-box}
body{font:16px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif;max-width:76rem;margin:0 auto;padding:1.5rem 1rem 3rem;color:var(--ink);background:var(--page);overflow-wrap:break-word}
h1{font-size:1.75rem;line-height:1.2;margin:0 0 .5rem}
h2{font-size:1.2rem;margin:2.25rem 0 .75rem;padding-bottom:.3rem;border-bottom:1px solid var(--line)}
p{margin:.4rem 0}
.mute,figcaption,td:nth-child(3){color:var(--mute)}
#badge{display:inline-block;font-size:.875rem;font-weight:600;line-height:1.4;padding:.1rem .6rem;border-radius:1rem;border:1px solid var(--line);background:var(--soft);vertical-align:.25em;margin-left:.4rem}
.running{color:#00694c}.failed,.stale{color:#b3261e}.stopped{color:#8a5a00}
@media (prefers-color-scheme:dark){.running{color:#2DC79A}.failed,.stale{color:#ff8a80}.stopped{color:#F7BC45}}
progress{width:100%;height:.6rem;margin:.5rem 0;accent-color:var(--accent)}
table{border-collapse:collapse;width:100%}
td{padding:.3rem 1rem .3rem 0;vertical-align:top;border-bottom:1px solid var(--line)}
td:first-child{white-space:nowrap}
figure{margin:0}
.charts{display:grid;gap:1.5rem 2rem}
.chart{display:block;width:100%;max-width:48rem;height:auto}
@media (min-width:1000px){.charts{grid-template-columns:1fr 1fr}}
.samples{display:flex;flex-wrap:wrap;gap:1rem 1.5rem;align-items:flex-start}
.samples figure{max-width:100%}
.samples img{display:block;image-rendering:pixelated;max-width:100%;border:1px solid var(--line)}
.earlier{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,10rem),1fr));margin-top:1.25rem}
.earlier:has(pre){grid-template-columns:repeat(auto-fill,minmax(min(100%,20rem),1fr))}
.earlier figure{min-width:0}
pre,code{font:.875rem/1.5 ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace}
pre,.command{display:block;white-space:pre-wrap;overflow-wrap:anywhere;background:var(--soft);border:1px solid var(--line);border-radius:.4rem;padding:.75rem 1rem;margin:0 0 .5rem}
summary{cursor:pointer;font-size:1.2rem;font-weight:600;margin:2.25rem 0 .75rem}
@media (max-width:560px){td{display:block;border:0;padding:0}td:first-child{font-weight:600;white-space:normal}td:last-child{padding-bottom:.6rem;border-bottom:1px solid var(--line);margin-bottom:.6rem}}
)";
}

std::string report_script() {
  return fmt::format(R"(
(function(){{
  var state=document.getElementById('state'),badge=document.getElementById('badge');
  var written=1000*state.dataset.written;
  var stale=Date.now()-written>1000*state.dataset.patience;
  if(stale){{
    badge.className='stale';
    badge.textContent='no update since '+new Date(written).toLocaleString();
    document.getElementById('stale').hidden=false;
    state.textContent=state.textContent.replace(', running',', not finished').replace(/, about [^;]* left/,'');
  }}
  setInterval(function(){{
    if(!document.querySelector('.tip[visibility=visible]'))location.reload();
  }},stale?{}:{});
}})();
)",
                     6000 * kReloadSeconds, 1000 * kReloadSeconds);
}

}  // namespace linea
