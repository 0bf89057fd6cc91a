// What a set of processes needs of the library that carries their messages: mpi.cpp by MPI, and
// threads of one process in tests. ranks.h builds sums and agreements of it.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"

namespace linea {

// Another rank was lost, is too late, or differs: exit code 7.
inline constexpr auto kRanksError = static_cast<ErrorKind>(7);

// `bytes` bytes from or to rank `peer`.
struct Piece {
  int peer;
  void* address;
  size_t bytes;
};

// Messages on their way. Those to receive must have exactly the bytes that are expected of them;
// else test() fails with kRanksError.
class Transfer {
 public:
  virtual ~Transfer() = default;
  // Whether all have arrived, and what is sent may be overwritten. Does not wait.
  virtual bool test() = 0;
  // The peers whose messages have not arrived, or have not been taken.
  virtual std::vector<int> missing() const = 0;
};

class Transport {
 public:
  virtual ~Transport() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  // Starts to send and to receive. Messages with the same tag between two ranks arrive in order.
  virtual std::unique_ptr<Transfer> start(int tag, const std::vector<Piece>& send,
                                          const std::vector<Piece>& receive) = 0;
  // Tells all others that this rank works; whether such a message came since the last call.
  virtual void beat() = 0;
  virtual bool took_beat() = 0;
  // Ends all ranks.
  [[noreturn]] virtual void abort(int code) = 0;
  // Before the process ends, once no message is on its way.
  virtual void finish() {}
  // "Open MPI 4.1.4"
  virtual std::string library() const = 0;
};

// Tags from kFirstFreeTag on are not taken by the numbered exchanges of ranks.h.
inline constexpr int kFirstFreeTag = 32000, kBeatTag = kFirstFreeTag,
                     kFailureTag = kFirstFreeTag + 1, kPostTag = kFirstFreeTag + 2;

}  // namespace linea
