// Pages of HTML that are one file: the parts that all of them share.
#pragma once

#include <string>

namespace linea {

// RFC 4648, section 4.
std::string base64(const std::string& bytes);

// Text for a <pre>, each line with its break; escape_xml() (data/chart.h) replaces these.
std::string escape_lines(const std::string& text);

// Colors for light and dark pages as the variables --ink, --mute, --line, --soft, --page and
// --accent; letters, headings, tables and code.
std::string page_style();

// From <!doctype html> to <body>. `more`: elements of the head, before the style; `language`: of the text.
std::string page_start(const std::string& title, const std::string& style,
                       const std::string& more = "", const std::string& language = "en");

// A <meta> element that lets a page load nothing, and have this style and this script alone.
std::string content_policy(const std::string& style, const std::string& script);

}  // namespace linea
