#include "cuda/emulator/settings.h"

#include <cstdlib>
#include <initializer_list>
#include <string>
#include <utility>

#include "cuda/emulator/checker.h"
#include "cuda/emulator/counts.h"
#include "cuda/emulator/report.h"

namespace linea::emulator {
namespace {

template <typename Value>
void choose(const char* name, Value& value,
            std::initializer_list<std::pair<const char*, Value>> choices) {
  const char* text = std::getenv(name);
  if (text == nullptr) return;
  std::string known;
  for (const auto& [word, choice] : choices) {
    if (std::string(text) == word) {
      value = choice;
      return;
    }
    known += (known.empty() ? "" : ", ") + std::string(word);
  }
  fatal("{} is '{}'; valid values: {}", name, text, known);
}

template <typename Value>
void read_number(const char* name, Value& value) {
  const char* text = std::getenv(name);
  if (text == nullptr) return;
  char* end = nullptr;
  value = static_cast<Value>(std::strtoull(text, &end, 10));
  if (*text == '\0' || *end != '\0') fatal("{} is '{}', which is not a number", name, text);
}

Settings from_environment() {
  Settings result;
  choose("LINEA_EMULATOR_ORDER", result.thread_order,
         {{"forward", ThreadOrder::forward},
          {"reverse", ThreadOrder::reverse},
          {"priority", ThreadOrder::priority}});
  choose("LINEA_EMULATOR_STREAMS", result.stream_order,
         {{"late", StreamOrder::late},
          {"eager", StreamOrder::eager},
          {"random", StreamOrder::random}});
  read_number("LINEA_EMULATOR_DEVICES", result.devices);
  read_number("LINEA_EMULATOR_CAPABILITY", result.capability);
  choose("LINEA_EMULATOR_GUARD", result.guard, {{"0", false}, {"1", true}});
  read_number("LINEA_EMULATOR_SEED", result.seed);
  read_number("LINEA_EMULATOR_MEMORY", result.memory);
  if (const char* file = std::getenv("LINEA_EMULATOR_COUNTS"); file != nullptr) {
    if (checker == nullptr)
      fatal(
          "LINEA_EMULATOR_COUNTS: only programs with the checker, such as test_cuda_checked, "
          "count");
    write_counts_at_exit(file);
    result.counts = true;
  }
  return result;
}

}  // namespace

Settings& settings() {
  static Settings instance = from_environment();
  return instance;
}

uint32_t Random::next() {
  state_ += 0x9E3779B97F4A7C15u;
  uint64_t bits = state_;
  bits = (bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9u;
  bits = (bits ^ (bits >> 27)) * 0x94D049BB133111EBu;
  return static_cast<uint32_t>((bits ^ (bits >> 31)) >> 32);
}

}  // namespace linea::emulator
