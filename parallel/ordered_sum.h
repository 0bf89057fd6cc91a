// OrderedSum by slices. Internal to ranks.cpp.
//
//   1. every rank sends slice j of its x to rank j
//   2. rank j adds its W slices in the order of the ranks, in double, and rounds once
//   3. rank j sends the sum to all
//
// A rank sends and receives 2 (W-1) / W of the bytes of x, as in a ring.
#pragma once

#include <algorithm>

#include "parallel/ranks.h"

namespace linea {

template <typename T>
class SliceSum final : public OrderedSum {
 public:
  // `transport` null: a process by itself. Takes the tags `tag` and `tag` + 1.
  SliceSum(Transport* transport, int tag, T* x, int64_t n, std::string what)
      : transport_(transport), tag_(tag), x_(x), n_(n), what_(std::move(what)) {
    if (transport_ == nullptr) return;
    W_ = transport_->size();
    const Piece own = slice(transport_->rank());
    const size_t count = own.bytes / sizeof(T);
    others_.resize(static_cast<size_t>(W_ - 1) * count);
    std::vector<Piece> send, receive;
    T* to = others_.data();
    for (int peer = 0; peer < W_; ++peer) {
      if (peer == transport_->rank()) continue;
      send.push_back(slice(peer));
      receive.push_back({peer, to, own.bytes});
      to += count;
    }
    transfer_ = transport_->start(tag_, send, receive);
  }

  bool progress() override {
    if (transfer_ == nullptr) return true;
    if (!transfer_->test()) return false;
    transfer_.reset();
    if (added_) return true;
    add();
    others_ = {};
    start_gather();
    return progress();
  }

  std::vector<int> missing() const override {
    return transfer_ == nullptr ? std::vector<int>() : transfer_->missing();
  }
  const std::string& what() const override { return what_; }

 private:
  // The elements that rank `rank` adds, cut at multiples of 16.
  Piece slice(int rank) const {
    constexpr int64_t kCut = 16;
    const auto cut = [&](int64_t j) {
      return std::min(n_, (n_ + kCut - 1) / kCut * j / W_ * kCut);
    };
    const int64_t first = cut(rank), end = rank + 1 == W_ ? n_ : cut(rank + 1);
    return {rank, x_ + first, static_cast<size_t>(end - first) * sizeof(T)};
  }

  // In blocks that stay in cache, whose loops the compiler vectorizes.
  void add() {
    constexpr int64_t kBlock = 1024;
    const Piece own = slice(transport_->rank());
    T* const sum = static_cast<T*>(own.address);
    const auto count = static_cast<int64_t>(own.bytes / sizeof(T));
    double total[kBlock];
    for (int64_t first = 0; first < count; first += kBlock) {
      const int64_t block = std::min(kBlock, count - first);
      const T* other = others_.data() + first;
      for (int rank = 0; rank < W_; ++rank) {
        const bool mine = rank == transport_->rank();
        const T* const from = mine ? sum + first : other;
        for (int64_t i = 0; i < block; ++i) total[i] = (rank == 0 ? 0.0 : total[i]) + from[i];
        if (!mine) other += count;
      }
      for (int64_t i = 0; i < block; ++i) sum[first + i] = static_cast<T>(total[i]);
    }
    added_ = true;
  }

  void start_gather() {
    const Piece own = slice(transport_->rank());
    std::vector<Piece> send, receive;
    for (int peer = 0; peer < W_; ++peer) {
      if (peer == transport_->rank()) continue;
      send.push_back({peer, own.address, own.bytes});
      receive.push_back(slice(peer));
    }
    transfer_ = transport_->start(tag_ + 1, send, receive);
  }

  Transport* transport_;
  int tag_, W_ = 1;
  T* x_;
  int64_t n_;
  std::string what_;
  std::vector<T> others_;  // the other ranks' slices
  std::unique_ptr<Transfer> transfer_;
  bool added_ = false;
};

}  // namespace linea
