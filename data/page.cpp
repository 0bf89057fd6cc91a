#include "data/page.h"

#include <fmt/format.h>

#include <cstdint>
#include <cstdlib>

#include "data/chart.h"
#include "data/hash.h"

namespace linea {
namespace {

// As a policy names the source of a style or a script.
std::string hash_source(const std::string& text) {
  const std::string hex = hash_bytes(text);
  std::string bytes;
  for (size_t i = 0; i < hex.size(); i += 2)
    bytes += static_cast<char>(std::strtol(hex.substr(i, 2).c_str(), nullptr, 16));
  return text.empty() ? "'none'" : "'sha256-" + base64(bytes) + "'";
}

}  // namespace

std::string base64(const std::string& bytes) {
  constexpr const char* kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t group = 0;
    for (size_t j = i; j < i + 3; ++j)
      group = group << 8 | (j < bytes.size() ? static_cast<unsigned char>(bytes[j]) : 0u);
    for (size_t digit = 0; digit < 4; ++digit)
      text += i + digit <= bytes.size() ? kDigits[group >> (18 - 6 * digit) & 63] : '=';
  }
  return text;
}

std::string page_style() {
  return R"(
:root{color-scheme:light dark;--ink:#1f2328;--mute:#59636e;--line:#d8dee4;--soft:#f5f7f9;--page:#fff;--accent:#0072B2}
@media (prefers-color-scheme:dark){:root{--ink:#e6edf3;--mute:#9da7b3;--line:#30363d;--soft:#161b22;--page:#0d1117;--accent:#3D94D6}}
*{box-sizing:border-box}
body{font:1rem/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif;max-width:76rem;margin:0 auto;padding:1.5rem 1rem 3rem;color:var(--ink);background:var(--page);overflow-wrap:break-word}
h1{font-size:1.75rem;line-height:1.2;margin:0 0 .5rem}
h2{font-size:1.2rem;margin:2.25rem 0 .75rem;padding-bottom:.3rem;border-bottom:1px solid var(--line)}
p{margin:.4rem 0}
.mute,figcaption{color:var(--mute)}
table{border-collapse:collapse;width:100%}
td{padding:.3rem 1rem .3rem 0;vertical-align:top;border-bottom:1px solid var(--line)}
figure{margin:0}
.chart{display:block;width:100%;max-width:48rem;height:auto}
pre,code{font:.875rem/1.5 ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace}
pre,.command{display:block;white-space:pre-wrap;overflow-wrap:anywhere;background:var(--soft);border:1px solid var(--line);border-radius:.4rem;padding:.75rem 1rem;margin:0 0 .5rem}
summary{cursor:pointer}
)";
}

std::string escape_lines(const std::string& text) {
  std::string result;
  for (size_t first = 0, end = 0; end != std::string::npos; first = end + 1) {
    end = text.find('\n', first);
    result += escape_xml(text.substr(first, end - first)) + "\n";
  }
  return result;
}

std::string page_start(const std::string& title, const std::string& style, const std::string& more,
                       const std::string& language) {
  return fmt::format(
      "<!doctype html>\n<html lang=\"{3}\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n{0}"
      "<title>{1}</title>\n<style>{2}</style>\n</head>\n<body>\n",
      more, escape_xml(title), style, language);
}

std::string content_policy(const std::string& style, const std::string& script) {
  return fmt::format(
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; img-src data:; "
      "style-src {}; script-src {}; base-uri 'none'; form-action 'none'\">\n",
      hash_source(style), hash_source(script));
}

}  // namespace linea
