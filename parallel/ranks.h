// The ranks: processes that were started together, by mpirun, to train one model. Rank 0 is the
// main one, which alone writes. A process by itself is a rank, too, of one, and needs no library
// for it.
//
// Every rank calls the functions below in the same order. Each waits for the others at most as long
// as set_timeout() says.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/scoped.h"
#include "parallel/transport.h"

namespace linea {

// x becomes the sum of all ranks' x, the same bits on all. Each rank adds a slice of the elements,
// in the order of the ranks, in double, and rounds once; then all take the slices. More than 64 ranks
// add in groups, and the sums of the groups in double. The bits are a function of the addends and of
// the number of ranks, not of what arrives first.
class OrderedSum {
 public:
  virtual ~OrderedSum() = default;
  // Does what can be done without waiting; true: x has the sum.
  virtual bool progress() = 0;
  virtual std::vector<int> missing() const = 0;
  virtual const std::string& what() const = 0;
};

// W, or for more than 64 ranks the least divisor of W that is not below its square root.
int ranks_of_a_group(int W);

class Ranks {
 public:
  Ranks() = default;  // a process by itself
  // `checked`: before each exchange all compare its number, purpose and size, and the first rank
  // that differs is named.
  explicit Ranks(std::unique_ptr<Transport> transport, bool checked = false);
  ~Ranks();
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  int rank() const { return transport_ ? transport_->rank() : 0; }
  int size() const { return transport_ ? transport_->size() : 1; }
  bool alone() const { return size() == 1; }
  bool is_main() const { return rank() == 0; }
  // The ranks of this host, this one's number among them, those that have the same cores; its
  // cores.
  struct Host {
    int ranks = 1, local = 0, sharing = 1, cores = 1;
  };
  const Host& host() const { return host_; }
  int hosts() const;
  // "rank 3 on node7"
  std::string name(int rank) const;
  std::string library() const { return transport_ ? transport_->library() : ""; }

  // How long to wait for a rank that does not answer; initially ten minutes. 0: for ever.
  void set_timeout(double seconds) { timeout_ = seconds; }
  // What the ranks do now, for messages: "step 120".
  void set_place(std::string place) { place_ = std::move(place); }

  // `what` names the purpose in messages. A sum that was started is finished by finish(), before x
  // is used or freed; others may be started meanwhile.
  OrderedSum& start_sum(float* x, int64_t n, std::string what);
  void progress();  // of all sums that were started, and of what was posted
  void finish();    // them
  void sum(std::vector<double>& x, const std::string& what);
  // Messages between two ranks, apart from what all do together; those from one rank to another arrive in
  // order. post() does not wait; take() waits for exactly so many bytes.
  void post(int peer, std::vector<uint8_t> bytes);
  void take(int peer, void* address, size_t bytes, const std::string& what);
  // By rank.
  std::vector<std::string> all_gather(const std::string& mine, const std::string& what);
  std::vector<double> all_gather(double mine, const std::string& what);
  // What rank 0 has.
  std::string broadcast(const std::string& mine, const std::string& what);
  void broadcast(void* address, size_t bytes, const std::string& what);

  // Runs `work` on every rank. Where it fails on some, by an Error or for lack of memory, the error
  // of the lowest one is thrown on all, with the rank's name unless that is 0.
  void agree(const std::string& what, const std::function<void()>& work);
  // Runs `work` on rank 0 and returns its result on all, or throws its error on all.
  std::string from_main(const std::string& what, const std::function<std::string()>& work);
  // Called by rank 0 in work that the others wait for: they wait longer. Costs nothing if called
  // often.
  void beat();

  // Seconds of waiting so far, and how often the system took this thread's core meanwhile.
  double waited_seconds() const { return waited_; }
  int64_t waiting_preemptions() const { return waiting_preemptions_; }

  // Ends a program that failed with this exit code: where all ranks failed, true on all, and rank 0
  // reports it. Else false, after which the caller reports it and calls abort(). `seconds`: of
  // waiting for the others.
  bool all_failed(int code, double seconds);
  [[noreturn]] void abort(int code);
  // Waits for all, at the end of the program.
  void end();

 private:
  int next_tag(const std::string& what, uint64_t bytes);
  void wait(Transfer& transfer, const std::string& what);
  void wait_until(const std::function<bool()>& done,
                  const std::function<std::vector<int>()>& missing, const std::string& what);
  void compare_exchange(const std::string& what, uint64_t bytes);
  std::vector<std::string> gather_sized(int tag, const std::string& mine, const std::string& what);
  void find_hosts();

  std::unique_ptr<Transport> transport_;  // null: a process by itself
  bool checked_ = false;
  Host host_;
  std::vector<std::string> host_names_;  // by rank
  double timeout_ = 600, waited_ = 0, last_beat_ = 0;
  int64_t waiting_preemptions_ = 0;
  uint64_t exchanges_ = 0;
  std::string place_;
  std::vector<std::unique_ptr<OrderedSum>> sums_;  // that were started and not finished
  struct Posted {
    std::vector<uint8_t> bytes;
    std::unique_ptr<Transfer> transfer;
  };
  std::vector<Posted> posted_;  // that may be on their way
};

// Those of this thread: initially a process by itself.
Ranks& ranks();
// While one lives, ranks() of this thread.
struct UseRanks : Scoped<Ranks*> {
  explicit UseRanks(Ranks& ranks);
};

// The part of `count` things that rank `rank` of `size` has: [first, end).
struct Share {
  int64_t first = 0, end = 0;
  int64_t count() const { return end - first; }
};
inline Share share_of(int64_t count, int rank, int size) {
  return {rank * count / size, (rank + 1) * count / size};
}

}  // namespace linea
