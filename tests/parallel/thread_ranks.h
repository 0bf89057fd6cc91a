// Ranks that are threads of one process: a transport for tests, and what runs a function on each.
#pragma once

#include <omp.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <tuple>

#include "parallel/ranks.h"

namespace linea {

// What is between the threads.
struct ThreadMail {
  explicit ThreadMail(int ranks) : size(ranks), beats(static_cast<size_t>(ranks)) {}
  const int size;
  std::mutex mutex;
  std::map<std::tuple<int, int, int>, std::deque<std::string>>
      boxes;               // by sender, receiver and tag
  std::vector<int> beats;  // by receiver
};

class ThreadTransfer final : public Transfer {
 public:
  ThreadTransfer(ThreadMail& mail, int rank, int tag, std::vector<Piece> receive)
      : mail_(mail), rank_(rank), tag_(tag), receive_(std::move(receive)) {}

  bool test() override {
    const std::lock_guard lock(mail_.mutex);
    while (!receive_.empty()) {
      const Piece& piece = receive_.front();
      std::deque<std::string>& box = mail_.boxes[{piece.peer, rank_, tag_}];
      if (box.empty()) return false;
      if (box.front().size() != piece.bytes)
        fail(kRanksError, "rank {} sent {} bytes where {} were expected", piece.peer,
             box.front().size(), piece.bytes);
      box.front().copy(static_cast<char*>(piece.address), piece.bytes);
      box.pop_front();
      receive_.erase(receive_.begin());
    }
    return true;
  }
  std::vector<int> missing() const override {
    std::vector<int> peers;
    for (const Piece& piece : receive_) peers.push_back(piece.peer);
    return peers;
  }

 private:
  ThreadMail& mail_;
  int rank_, tag_;
  std::vector<Piece> receive_;
};

class ThreadTransport final : public Transport {
 public:
  ThreadTransport(ThreadMail& mail, int rank) : mail_(mail), rank_(rank) {}
  int rank() const override { return rank_; }
  int size() const override { return mail_.size; }
  std::unique_ptr<Transfer> start(int tag, const std::vector<Piece>& send,
                                  const std::vector<Piece>& receive) override {
    const std::lock_guard lock(mail_.mutex);
    for (const Piece& piece : send)
      mail_.boxes[{rank_, piece.peer, tag}].emplace_back(static_cast<const char*>(piece.address),
                                                         piece.bytes);
    return std::make_unique<ThreadTransfer>(mail_, rank_, tag, receive);
  }
  void beat() override {
    const std::lock_guard lock(mail_.mutex);
    for (int peer = 0; peer < mail_.size; ++peer)
      if (peer != rank_) ++mail_.beats[static_cast<size_t>(peer)];
  }
  bool took_beat() override {
    const std::lock_guard lock(mail_.mutex);
    return std::exchange(mail_.beats[static_cast<size_t>(rank_)], 0) > 0;
  }
  [[noreturn]] void abort(int code) override {
    fail(kRanksError, "rank {} ends all with {}", rank_, code);
  }
  std::string library() const override { return "threads"; }

 private:
  ThreadMail& mail_;
  int rank_;
};

// Runs `work` on W ranks at once; returns the errors of each, "" where there was none.
inline std::vector<std::string> on_ranks(int W, const std::function<void(Ranks&)>& work,
                                         bool checked = true) {
  ThreadMail mail(W);
  std::vector<std::string> errors(static_cast<size_t>(W));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < W; ++rank)
    threads.emplace_back([&, rank] {
      omp_set_num_threads(1);
      try {
        Ranks own(std::make_unique<ThreadTransport>(mail, rank), checked);
        own.set_timeout(60);
        const UseRanks use(own);
        work(own);
      } catch (const Error& error) {
        errors[static_cast<size_t>(rank)] = error.what();
      }
    });
  for (std::thread& thread : threads) thread.join();
  return errors;
}

}  // namespace linea
