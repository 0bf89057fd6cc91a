// Transport by MPI, in a module of its own: the only file that knows it. Its functions are called by
// the main thread alone.
#include <mpi.h>

#include <algorithm>
#include <cstdlib>

#include "parallel/transport.h"

namespace linea {
namespace {

constexpr size_t kLargestMessage = size_t{1} << 30;  // MPI counts in int

void check(int code, const char* what) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(code, text, &length);
  fail(kRanksError, "MPI cannot {}: {}", what, text);
}

class MpiTransfer final : public Transfer {
 public:
  void add(MPI_Request request, int peer, int bytes_to_receive) {
    requests_.push_back(request);
    messages_.push_back({peer, bytes_to_receive});
  }
  // What was not received is not written any more.
  ~MpiTransfer() override {
    for (MPI_Request& request : requests_) {
      if (request == MPI_REQUEST_NULL) continue;
      MPI_Cancel(&request);
      MPI_Request_free(&request);
    }
  }

  bool test() override {
    while (first_ < requests_.size()) {
      int done = 0;
      MPI_Status status;
      const Message& message = messages_[first_];
      check(MPI_Test(&requests_[first_], &done, &status), "exchange messages");
      if (done == 0) return false;
      int bytes = message.bytes;
      if (bytes >= 0) MPI_Get_count(&status, MPI_BYTE, &bytes);
      if (bytes != message.bytes)
        fail(kRanksError, "rank {} sent {} bytes where {} were expected", message.peer, bytes,
             message.bytes);
      ++first_;
    }
    return true;
  }

  std::vector<int> missing() const override {
    std::vector<int> peers;
    for (size_t i = first_; i < requests_.size(); ++i)
      if (requests_[i] != MPI_REQUEST_NULL) peers.push_back(messages_[i].peer);
    std::sort(peers.begin(), peers.end());
    peers.erase(std::unique(peers.begin(), peers.end()), peers.end());
    return peers;
  }

 private:
  struct Message {
    int peer, bytes;  // bytes: to receive, -1 where it is sent
  };
  std::vector<MPI_Request> requests_;
  std::vector<Message> messages_;
  size_t first_ = 0;  // that has not been done
};

template <typename Start>
void for_parts(const Piece& piece, const Start& start) {
  char* address = static_cast<char*>(piece.address);
  for (size_t left = piece.bytes; left > 0;) {
    const size_t part = std::min(left, kLargestMessage);
    start(address, static_cast<int>(part));
    address += part;
    left -= part;
  }
}

class MpiTransport final : public Transport {
 public:
  MpiTransport() {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  std::unique_ptr<Transfer> start(int tag, const std::vector<Piece>& send,
                                  const std::vector<Piece>& receive) override {
    auto transfer = std::make_unique<MpiTransfer>();
    for (const Piece& piece : receive)
      for_parts(piece, [&](char* address, int bytes) {
        MPI_Request request = MPI_REQUEST_NULL;
        check(MPI_Irecv(address, bytes, MPI_BYTE, piece.peer, tag, MPI_COMM_WORLD, &request),
              "receive a message");
        transfer->add(request, piece.peer, bytes);
      });
    for (const Piece& piece : send)
      for_parts(piece, [&](char* address, int bytes) {
        MPI_Request request = MPI_REQUEST_NULL;
        check(MPI_Isend(address, bytes, MPI_BYTE, piece.peer, tag, MPI_COMM_WORLD, &request),
              "send a message");
        transfer->add(request, piece.peer, -1);
      });
    return transfer;
  }

  void beat() override {
    for (int peer = 0; peer < size_; ++peer) {
      if (peer == rank_) continue;
      MPI_Request request = MPI_REQUEST_NULL;
      check(MPI_Isend(nullptr, 0, MPI_BYTE, peer, kBeatTag, MPI_COMM_WORLD, &request),
            "send a message");
      MPI_Request_free(&request);
    }
  }

  bool took_beat() override {
    bool taken = false;
    for (int found = 1; found != 0;) {
      MPI_Status status;
      check(MPI_Iprobe(MPI_ANY_SOURCE, kBeatTag, MPI_COMM_WORLD, &found, &status),
            "look for messages");
      if (found == 0) break;
      check(MPI_Recv(nullptr, 0, MPI_BYTE, status.MPI_SOURCE, kBeatTag, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE),
            "receive a message");
      taken = true;
    }
    return taken;
  }

  [[noreturn]] void abort(int code) override {
    MPI_Abort(MPI_COMM_WORLD, code);
    std::_Exit(code);
  }

  void finish() override {
    took_beat();
    MPI_Finalize();
  }

  std::string library() const override {
#ifdef OMPI_MAJOR_VERSION
    return fmt::format("Open MPI {}.{}.{}", OMPI_MAJOR_VERSION, OMPI_MINOR_VERSION,
                       OMPI_RELEASE_VERSION);
#elif defined(MPICH_VERSION)
    return std::string("MPICH ") + MPICH_VERSION;
#else
    return "MPI";
#endif
  }

 private:
  int rank_ = 0, size_ = 1;
};

}  // namespace
}  // namespace linea

// Called by launch.cpp once, in every process.
extern "C" linea::Transport* linea_start_mpi() {
  int provided = 0;
  if (MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided) != MPI_SUCCESS)
    linea::fail(linea::ErrorKind::usage, "MPI does not start");
  return new linea::MpiTransport;
}
