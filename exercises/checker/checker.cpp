// Runs the steps of an exercise in a child process and prints what they say.
#include "checker.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

namespace {

constexpr unsigned kSeconds = 8;
size_t held = 0, peak = 0;

}  // namespace

void* operator new(size_t bytes) {
  auto* const block = static_cast<size_t*>(std::malloc(bytes + 16));
  if (block == nullptr) throw std::bad_alloc();
  *block = bytes;
  held += bytes;
  peak = std::max(peak, held);
  return block + 2;
}
void operator delete(void* block) noexcept {
  if (block == nullptr) return;
  held -= *(static_cast<size_t*>(block) - 2);
  std::free(static_cast<size_t*>(block) - 2);
}
void operator delete(void* block, size_t) noexcept { operator delete(block); }

namespace checker {

size_t held_bytes() { return held; }
size_t peak_bytes() { return peak; }
void reset_peak() { peak = held; }

double Random::uniform() {  // splitmix64 (Steele et al. 2014), above 0
  unsigned long z = state_ += 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return (static_cast<double>((z ^ (z >> 31)) >> 11) + 1) / 9007199254740992.0;
}
double Random::normal() {  // Box and Muller
  const double radius = std::sqrt(-2 * std::log(uniform()));
  return radius * std::cos(6.283185307179586 * uniform());
}
Numbers Random::rows(int count, int width, double stddev) {
  Numbers x(count, width);
  for (int i = 0; i < count; ++i)
    for (int f = 0; f < width; ++f) x(i, f) = stddev * normal();
  return x;
}
Numbers Random::features(int count, int width) {
  Numbers x = rows(count, width);
  for (int i = 0; i < count; ++i)
    for (int f = 0; f < width; ++f) x(i, f) = std::exp(x(i, f));
  return x;
}

Features toy_features() {
  return {matrix({{1, 1}, {1, 2}, {2, 1}}), matrix({{1, 1}, {2, 1}, {1, 3}}),
          matrix({{1, 0}, {0, 1}, {1, 1}})};
}
Features some_features(Random& random, int n) {
  const int N = 4 + 3 * n, F = 2 + n, M = 1 + n % 4;
  return {random.features(N, F), random.features(N, F), random.rows(N, M)};
}

std::string of_sizes(unsigned seed, const std::function<std::string(Random&, int n)>& check) {
  for (int n = 0; n < 6; ++n) {
    Random random(seed * 100 + static_cast<unsigned>(n));
    if (const std::string message = check(random, n); !message.empty()) return message;
  }
  return "";
}

std::string format(const char* form, ...) {
  char text[400];
  va_list values;
  va_start(values, form);
  std::vsnprintf(text, sizeof(text), form, values);
  va_end(values);
  return text;
}

bool agree(const Numbers& a, const Numbers& b, double tolerance) {
  double largest = 0;
  for (int i = 0; i < b.rows(); ++i)
    for (int f = 0; f < b.width(); ++f)
      if (std::isfinite(b(i, f))) largest = std::max(largest, std::abs(b(i, f)));
  for (int i = 0; i < b.rows(); ++i)
    for (int f = 0; f < b.width(); ++f) {
      if (std::isfinite(a(i, f)) != std::isfinite(b(i, f))) return false;
      if (std::isfinite(b(i, f)) && std::abs(a(i, f) - b(i, f)) > tolerance * largest) return false;
    }
  return true;
}

std::string compare(const Numbers& y, const Numbers& right, const std::vector<Wrong>& wrong,
                    double tolerance, const std::string& name) {
  y.check_gaps();
  if (agree(y, right, tolerance)) return "";
  for (const Wrong& one : wrong)
    if (agree(y, one.result(), tolerance)) return one.hint;
  for (int i = 0; i < y.rows(); ++i)
    for (int f = 0; f < y.width(); ++f) {
      const double difference = std::abs(y(i, f) - right(i, f));
      if (!(difference <= tolerance * std::max(1.0, std::abs(right(i, f)))))
        return format("%s[%d][%d] is %.6g, and %.6g is right", name.c_str(), i, f, y(i, f),
                      right(i, f));
    }
  return name + " is nearly right: its errors are larger than those of rounding";
}

int row_not_finite(const Numbers& y) {
  for (int i = 0; i < y.rows(); ++i)
    for (int f = 0; f < y.width(); ++f)
      if (!std::isfinite(y(i, f))) return i;
  return -1;
}

namespace {

std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += c == '\n' ? ' ' : c;
  }
  return result + "\"";
}

// The steps up to the first that fails: 0 where none does.
int run_steps(const Exercise& exercise, bool json) {
  std::string separator;
  for (const Step& step : exercise.steps) {
    if (json)
      std::printf("%s{\"step\": %s, \"message\": ", separator.c_str(), quoted(step.name).c_str());
    else
      std::printf("  %-14s", step.name.c_str());
    std::fflush(stdout);
    std::string message;
    try {
      message = step.run();
    } catch (const std::bad_alloc&) {
      message = "it asks for more than a gigabyte";
    } catch (const std::exception& error) {
      message = error.what();
    }
    std::printf(json ? "%s}" : "%s\n", json              ? quoted(message).c_str()
                                       : message.empty() ? "ok"
                                                         : message.c_str());
    std::fflush(stdout);
    if (!message.empty()) return 1;
    separator = ", ";
  }
  return 0;
}

std::string death_of(int status) {
  const int signal = WTERMSIG(status);
  if (signal == SIGALRM || signal == SIGXCPU || signal == SIGKILL)
    return format("it does not end within %u s: look for a loop without an end", kSeconds);
  return format("it crashed (%s): look for a pointer or an index outside of its rows",
                strsignal(signal));
}

}  // namespace
}  // namespace checker

int main(int argc, char** argv) {
  using namespace checker;
  bool json = false;
  unsigned seed = 1;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--json") == 0) json = true;
    if (std::strcmp(argv[i], "--seed") == 0 && i + 1 < argc)
      seed = static_cast<unsigned>(std::atoi(argv[++i]));
  }
  const Exercise checked = exercise(seed);
  if (json)
    std::printf("{\"exercise\": \"%s\", \"seed\": %u, \"steps\": [", checked.number, seed);
  else
    std::printf("%s %s\n  %-14sok\n", checked.number, checked.title, "compiles");
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    const rlimit memory = {size_t{1} << 30, size_t{1} << 30}, no_core = {0, 0};
    setrlimit(RLIMIT_AS, &memory);
    setrlimit(RLIMIT_CORE, &no_core);
    alarm(kSeconds);
    const int failed = run_steps(checked, json);
    std::fflush(stdout);
    _exit(failed);
  }
  int status = 0;
  waitpid(child, &status, 0);
  const bool solved = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  if (WIFSIGNALED(status)) {
    const std::string death = death_of(status);
    std::printf(json ? "%s}" : "%s\n", json ? quoted(death).c_str() : death.c_str());
  }
  if (json) std::printf("], \"solved\": %s}\n", solved ? "true" : "false");
  return solved ? 0 : 1;
}
