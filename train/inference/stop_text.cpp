#include "train/inference/stop_text.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace linea {

StopText::StopText(std::vector<std::string> stops) : stops_(std::move(stops)) {
  for (const std::string& stop : stops_)
    require(!stop.empty(), "`stop` is empty; give the characters that end a text");
}

std::string StopText::add(const std::string& part) {
  if (stopped_) return "";
  const std::string text = std::exchange(held_, "") + part;
  size_t end = text.size();
  for (const std::string& stop : stops_) end = std::min(end, text.find(stop));
  stopped_ = end < text.size();
  if (stopped_) return text.substr(0, end);
  for (const std::string& stop : stops_)  // the longest end of the text that begins a stop string
    for (size_t length = std::min(stop.size() - 1, text.size()); length > text.size() - end;
         --length)
      if (text.ends_with(stop.substr(0, length))) end = text.size() - length;
  held_ = text.substr(end);
  return text.substr(0, end);
}

}  // namespace linea
