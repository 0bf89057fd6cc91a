#include "train/record/report_page.h"

#include <fmt/format.h>

#include "data/page.h"

namespace linea {

std::string report_style() {
  return page_style() + R"(
td:nth-child(3){color:var(--mute)}
#badge{display:inline-block;font-size:.875rem;font-weight:600;line-height:1.4;padding:.1rem .6rem;border-radius:1rem;border:1px solid var(--line);background:var(--soft);vertical-align:.25em;margin-left:.4rem}
.running{color:#00694c}.failed,.stale{color:#b3261e}.stopped{color:#8a5a00}
@media (prefers-color-scheme:dark){.running{color:#2DC79A}.failed,.stale{color:#ff8a80}.stopped{color:#F7BC45}}
progress{width:100%;height:.6rem;margin:.5rem 0;accent-color:var(--accent)}
td:first-child{white-space:nowrap}
.charts{display:grid;gap:1.5rem 2rem}
@media (min-width:1000px){.charts{grid-template-columns:1fr 1fr}}
.samples{display:flex;flex-wrap:wrap;gap:1rem 1.5rem;align-items:flex-start}
.samples figure{max-width:100%}
.samples img{display:block;image-rendering:pixelated;max-width:100%;border:1px solid var(--line)}
.earlier{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,10rem),1fr));margin-top:1.25rem}
.earlier:has(pre){grid-template-columns:repeat(auto-fill,minmax(min(100%,20rem),1fr))}
.earlier figure{min-width:0}
summary{font-size:1.2rem;font-weight:600;margin:2.25rem 0 .75rem}
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
