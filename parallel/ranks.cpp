#include "parallel/ranks.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <set>
#include <thread>

#include "base/system.h"
#include "parallel/ordered_sum.h"

namespace linea {
namespace {

constexpr double kPollSeconds = 200e-6;  // before a waiting rank sleeps
constexpr double kShortestSleep = 50e-6, kLongestSleep = 1e-3, kBeatSeconds = 1;
constexpr int kMaxGroup = 64;  // ranks that add as one group
constexpr uint64_t kLargestText = uint64_t{1} << 30;

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::string duration_text(double seconds) {
  return seconds >= 120 ? fmt::format("{:.0f} min", seconds / 60)
                        : fmt::format("{:.0f} s", seconds);
}

std::string host_name() {
  char name[256] = {};
  return gethostname(name, sizeof name - 1) == 0 ? name : "?";
}

// An error as text, and back; "" where there is none.
std::string encode(const Error* error) {
  return error == nullptr ? ""
                          : std::string(1, static_cast<char>(error->exit_code())) + error->what();
}

void throw_lowest(const std::vector<std::string>& errors, const Ranks& all) {
  for (size_t rank = 0; rank < errors.size(); ++rank) {
    if (errors[rank].empty()) continue;
    const std::string text = errors[rank].substr(1);
    throw Error(static_cast<ErrorKind>(errors[rank][0]),
                rank == 0 ? text : all.name(static_cast<int>(rank)) + ": " + text);
  }
}

thread_local Ranks* current = nullptr;

}  // namespace

int ranks_of_a_group(int W) {
  if (W <= kMaxGroup) return W;
  int group = static_cast<int>(std::sqrt(W));
  while (group * group < W || W % group != 0) ++group;
  return group;
}

Ranks& ranks() {
  static Ranks alone;
  return current == nullptr ? alone : *current;
}
UseRanks::UseRanks(Ranks& given) : Scoped(current, &given) {}

Ranks::Ranks(std::unique_ptr<Transport> transport, bool checked)
    : transport_(std::move(transport)), checked_(checked) {
  find_hosts();
}
Ranks::~Ranks() = default;

void Ranks::find_hosts() {
  if (alone()) return;
  const std::string own_host = host_name(), own_mask = core_mask();
  host_ = {0, 0, 0, static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN))};
  const std::vector<std::string> all = all_gather(own_host + "\n" + own_mask, "hosts");
  for (int other = 0; other < size(); ++other) {
    const std::string& text = all[static_cast<size_t>(other)];
    const size_t end = std::min(text.find('\n'), text.size());
    host_names_.push_back(text.substr(0, end));
    if (host_names_.back() != own_host) continue;
    ++host_.ranks;
    if (other < rank()) ++host_.local;
    if (text.substr(std::min(end + 1, text.size())) == own_mask) ++host_.sharing;
  }
}

int Ranks::hosts() const {
  return std::max(1, static_cast<int>(std::set(host_names_.begin(), host_names_.end()).size()));
}

std::string Ranks::name(int rank) const {
  const auto i = static_cast<size_t>(rank);
  return i < host_names_.size() ? fmt::format("rank {} on {}", rank, host_names_[i])
                                : fmt::format("rank {}", rank);
}

// The tag of the next exchange; one of several phases takes those after it, too.
int Ranks::next_tag(const std::string& what, uint64_t bytes) {
  if (checked_) compare_exchange(what, bytes);
  return static_cast<int>(4 * (exchanges_++ % (kFirstFreeTag / 8)));
}

void Ranks::compare_exchange(const std::string& what, uint64_t bytes) {
  const std::string mine = fmt::format("exchange {}: {}, {} bytes", exchanges_, what, bytes);
  const int tag = kFirstFreeTag / 2 + static_cast<int>(4 * (exchanges_ % (kFirstFreeTag / 8)));
  const std::vector<std::string> all = gather_sized(tag, mine, "the check of exchanges");
  for (size_t other = 0; other < all.size(); ++other)
    if (all[other] != all[0])
      fail(kRanksError, "{} is at {}; rank 0 is at {}", name(static_cast<int>(other)), all[other],
           all[0]);
}

// Polls, then sleeps, so that neither a rank that computes on the same core nor StepThreads takes
// the wait for work.
void Ranks::wait_until(const std::function<bool()>& done,
                       const std::function<std::vector<int>()>& missing, const std::string& what) {
  if (done()) return;
  const double start = now();
  const int64_t before = count_thread_preemptions();
  double since = start, sleep = kShortestSleep;
  while (!done()) {
    progress();
    const double time = now();
    if (transport_->took_beat()) since = time;
    if (timeout_ > 0 && time - since > timeout_) {
      const std::vector<int> peers = missing();
      fail(kRanksError, "{}{}{}: {} has not answered for {}", place_, place_.empty() ? "" : ", ",
           what, peers.empty() ? "a rank" : name(peers.front()), duration_text(timeout_));
    }
    if (time - start < kPollSeconds) continue;
    std::this_thread::sleep_for(std::chrono::duration<double>(sleep));
    sleep = std::min(2 * sleep, kLongestSleep);
  }
  waited_ += now() - start;
  waiting_preemptions_ += count_thread_preemptions() - before;
}

void Ranks::wait(Transfer& transfer, const std::string& what) {
  wait_until([&] { return transfer.test(); }, [&] { return transfer.missing(); }, what);
}

OrderedSum& Ranks::start_sum(float* x, int64_t n, std::string what) {
  const int tag = alone() ? 0 : next_tag(what, static_cast<uint64_t>(n) * sizeof(float));
  sums_.push_back(std::make_unique<SliceSum<float>>(transport_.get(), tag, x, n, std::move(what)));
  return *sums_.back();
}

void Ranks::progress() {
  for (const auto& sum : sums_) sum->progress();
  std::erase_if(posted_, [](const Posted& posted) { return posted.transfer->test(); });
}

void Ranks::post(int peer, std::vector<uint8_t> bytes) {
  Posted& posted = posted_.emplace_back();
  posted.bytes = std::move(bytes);
  posted.transfer =
      transport_->start(kPostTag, {{peer, posted.bytes.data(), posted.bytes.size()}}, {});
  progress();
}

void Ranks::take(int peer, void* address, size_t bytes, const std::string& what) {
  wait(*transport_->start(kPostTag, {}, {{peer, address, bytes}}), what);
}

void Ranks::finish() {
  for (const auto& sum : sums_)
    wait_until([&] { return sum->progress(); }, [&] { return sum->missing(); }, sum->what());
  sums_.clear();
}

void Ranks::sum(std::vector<double>& x, const std::string& what) {
  if (alone()) return;
  SliceSum<double> sum(transport_.get(), next_tag(what, x.size() * sizeof(double)), x.data(),
                       static_cast<int64_t>(x.size()), what);
  wait_until([&] { return sum.progress(); }, [&] { return sum.missing(); }, what);
}

// First the sizes, then the texts.
std::vector<std::string> Ranks::gather_sized(int tag, const std::string& mine,
                                             const std::string& what) {
  const auto W = static_cast<size_t>(size());
  std::vector<uint64_t> sizes(W, mine.size());
  uint64_t own = mine.size();
  std::vector<Piece> send, receive;
  for (int peer = 0; peer < size(); ++peer) {
    if (peer == rank()) continue;
    send.push_back({peer, &own, sizeof own});
    receive.push_back({peer, &sizes[static_cast<size_t>(peer)], sizeof own});
  }
  wait(*transport_->start(tag, send, receive), what);
  std::vector<std::string> all(W);
  for (size_t i = 0; i < send.size(); ++i) {
    const auto peer = static_cast<size_t>(receive[i].peer);
    if (sizes[peer] > kLargestText)
      fail(kRanksError, "{}: {} sends {} bytes", what, name(receive[i].peer), sizes[peer]);
    all[peer].resize(sizes[peer]);
    send[i] = {send[i].peer, const_cast<char*>(mine.data()), mine.size()};
    receive[i] = {receive[i].peer, all[peer].data(), all[peer].size()};
  }
  wait(*transport_->start(tag + 1, send, receive), what);
  all[static_cast<size_t>(rank())] = mine;
  return all;
}

std::vector<std::string> Ranks::all_gather(const std::string& mine, const std::string& what) {
  if (alone()) return {mine};
  return gather_sized(next_tag(what, 0), mine, what);
}

std::vector<double> Ranks::all_gather(double mine, const std::string& what) {
  std::vector<double> all;
  for (const std::string& text :
       all_gather(std::string(reinterpret_cast<char*>(&mine), sizeof mine), what)) {
    all.push_back(0);
    if (text.size() != sizeof mine)
      fail(kRanksError, "{}: {} bytes for a number", what, text.size());
    std::memcpy(&all.back(), text.data(), sizeof mine);
  }
  return all;
}

void Ranks::broadcast(void* address, size_t bytes, const std::string& what) {
  if (alone()) return;
  const int tag = next_tag(what, bytes);
  std::vector<Piece> send, receive;
  if (!is_main()) receive.push_back({0, address, bytes});
  for (int peer = 1; is_main() && peer < size(); ++peer) send.push_back({peer, address, bytes});
  wait(*transport_->start(tag, send, receive), what);
}

std::string Ranks::broadcast(const std::string& mine, const std::string& what) {
  if (alone()) return mine;
  uint64_t bytes = mine.size();
  broadcast(&bytes, sizeof bytes, what);
  if (bytes > kLargestText) fail(kRanksError, "{}: rank 0 sends {} bytes", what, bytes);
  std::string text = mine;
  text.resize(bytes);
  broadcast(text.data(), text.size(), what);
  return text;
}

void Ranks::agree(const std::string& what, const std::function<void()>& work) {
  if (alone()) return work();
  std::string error;
  try {
    work();
  } catch (const Error& own) {
    if (own.kind() == kRanksError) throw;
    error = encode(&own);
  } catch (const std::bad_alloc&) {
    const Error own(ErrorKind::memory, what + ": out of memory outside of tensors");
    error = encode(&own);
  }
  throw_lowest(all_gather(error, what), *this);
}

std::string Ranks::from_main(const std::string& what, const std::function<std::string()>& work) {
  std::string result;
  agree(what, [&] {
    if (is_main()) result = work();
  });
  return broadcast(result, what);
}

void Ranks::beat() {
  if (alone() || !is_main() || now() - last_beat_ < kBeatSeconds) return;
  last_beat_ = now();
  transport_->beat();
}

bool Ranks::all_failed(int code, double seconds) {
  if (alone()) return true;
  const auto W = static_cast<size_t>(size());
  std::vector<int> codes(W, code);
  std::vector<Piece> send, receive;
  for (int peer = 0; peer < size(); ++peer) {
    if (peer == rank()) continue;
    send.push_back({peer, &code, sizeof code});
    receive.push_back({peer, &codes[static_cast<size_t>(peer)], sizeof code});
  }
  const std::unique_ptr<Transfer> transfer = transport_->start(kFailureTag, send, receive);
  for (const double end = now() + seconds; !transfer->test();) {
    if (now() > end) return false;
    std::this_thread::sleep_for(std::chrono::duration<double>(kLongestSleep));
  }
  return true;
}

void Ranks::abort(int code) {
  if (transport_) transport_->abort(code);
  std::exit(code);
}

void Ranks::end() {
  if (!transport_) return;
  if (!alone()) all_gather("", "the end of the program");
  wait_until([&] { return progress(), posted_.empty(); }, [] { return std::vector<int>(); },
             "the end of the program");
  transport_->finish();
}

}  // namespace linea
