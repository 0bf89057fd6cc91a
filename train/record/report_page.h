// The look of RUN/report.html, and what it does in a browser.
#pragma once

#include <string>

namespace linea {

constexpr int kReloadSeconds = 10;

std::string report_style();

// For a page with #state and #badge: loads the page again while its run trains, every
// kReloadSeconds unless the pointer reads a chart. Where the page is older than data-patience
// seconds, the program that should have written it again has probably ended: the badge and #stale
// say so.
std::string report_script();

}  // namespace linea
