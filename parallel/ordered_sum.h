// OrderedSum by slices. Internal to ranks.cpp.
//
//   1. every rank of a group sends slice j of its x to the group's rank j
//   2. that adds them in the order of the ranks, in double
//   3. the ranks of number j of all groups share the slice in the same way: part k goes, as doubles, to that
//      of group k, which adds them in the order of the groups and rounds once
//   4. part k goes to all of number j, slice j to the group
//
// One group has no step 3: then a rank sends and receives 2 (W-1) / W of the bytes of x, as in a
// ring, in 2 (W-1) messages. More groups take 2 (g-1) + 2 (W/g - 1) messages.
#pragma once

#include <algorithm>

#include "parallel/ranks.h"

namespace linea {

// sum[i] = the sum over `peers` of element i, of which this rank's `own` are those of number `index`
// and `others` those of the others, one after the other. In blocks that stay in cache, whose loops
// the compiler vectorizes. `sum` may be `own`.
template <typename From, typename To>
void add_in_order(int peers, int index, int64_t count, const From* own, const From* others,
                  To* sum) {
  constexpr int64_t kBlock = 1024;
  double total[kBlock];
  for (int64_t first = 0; first < count; first += kBlock) {
    const int64_t block = std::min(kBlock, count - first);
    const From* other = others + first;
    for (int peer = 0; peer < peers; ++peer) {
      const From* const from = peer == index ? own + first : other;
      for (int64_t i = 0; i < block; ++i) total[i] = (peer == 0 ? 0.0 : total[i]) + from[i];
      if (peer != index) other += count;
    }
    for (int64_t i = 0; i < block; ++i) sum[first + i] = static_cast<To>(total[i]);
  }
}

template <typename T>
class SliceSum final : public OrderedSum {
 public:
  // `transport` null: a process by itself. Takes the tags `tag` to `tag` + 3.
  SliceSum(Transport* transport, int tag, T* x, int64_t n, std::string what)
      : transport_(transport), tag_(tag), x_(x), what_(std::move(what)) {
    if (transport_ == nullptr) return;
    const int rank = transport_->rank(), group = ranks_of_a_group(transport_->size()),
              groups = transport_->size() / group;
    group_ = {group, rank % group, rank - rank % group, 1};
    column_ = {groups, rank / group, rank % group, group};
    all_ = {0, n};
    own_ = slice(all_, group_, group_.index);
    transfer_ = scatter(group_, all_, x_, others_);
  }

  bool progress() override {
    while (transfer_ != nullptr) {
      if (!transfer_->test()) return false;
      transfer_.reset();
      next();
    }
    return true;
  }

  std::vector<int> missing() const override {
    return transfer_ == nullptr ? std::vector<int>() : transfer_->missing();
  }
  const std::string& what() const override { return what_; }

 private:
  // The ranks first, first + stride, ..., of which this one has number `index`.
  struct Peers {
    int count = 1, index = 0, first = 0, stride = 1;
  };
  struct Span {
    int64_t first = 0, end = 0;
  };

  // The elements of `whole` that peer `j` adds, cut at multiples of 16.
  static Span slice(Span whole, const Peers& peers, int j) {
    constexpr int64_t kCut = 16;
    const int64_t n = whole.end - whole.first;
    const auto cut = [&](int64_t i) {
      return i == peers.count ? n : std::min(n, (n + kCut - 1) / kCut * i / peers.count * kCut);
    };
    return {whole.first + cut(j), whole.first + cut(j + 1)};
  }
  template <typename U>
  static Piece piece(const Peers& peers, int j, U* x, Span span) {
    return {peers.first + j * peers.stride, x + span.first,
            static_cast<size_t>(span.end - span.first) * sizeof(U)};
  }

  // Sends each peer its slice of `whole`, and receives the own one of all into `others`. x: element 0.
  template <typename U>
  std::unique_ptr<Transfer> scatter(const Peers& peers, Span whole, U* x, std::vector<U>& others) {
    const Span own = slice(whole, peers, peers.index);
    const int64_t count = own.end - own.first;
    others.resize(static_cast<size_t>(peers.count - 1) * static_cast<size_t>(count));
    std::vector<Piece> send, receive;
    int64_t to = 0;
    for (int j = 0; j < peers.count; ++j) {
      if (j == peers.index) continue;
      send.push_back(piece(peers, j, x, slice(whole, peers, j)));
      receive.push_back(piece(peers, j, others.data(), {to, to + count}));
      to += count;
    }
    return transport_->start(tag_++, send, receive);
  }

  std::unique_ptr<Transfer> gather(const Peers& peers, Span whole) {
    std::vector<Piece> send, receive;
    for (int j = 0; j < peers.count; ++j) {
      if (j == peers.index) continue;
      send.push_back(piece(peers, j, x_, slice(whole, peers, peers.index)));
      receive.push_back(piece(peers, j, x_, slice(whole, peers, j)));
    }
    return transport_->start(tag_++, send, receive);
  }

  // After each of the transfers.
  void next() {
    const int64_t count = own_.end - own_.first;
    T* const own = x_ + own_.first;
    const bool one_group = column_.count == 1;
    switch (step_++) {
      case 0:
        if (one_group) {
          add_in_order(group_.count, group_.index, count, own, others_.data(), own);
          step_ = 3;
          transfer_ = gather(group_, all_);
        } else {
          partial_.resize(static_cast<size_t>(count));
          add_in_order(group_.count, group_.index, count, own, others_.data(), partial_.data());
          transfer_ = scatter(column_, {0, count}, partial_.data(), partials_);
        }
        others_ = std::vector<T>();  // frees it
        break;
      case 1: {
        const Span part = slice({0, count}, column_, column_.index);
        add_in_order(column_.count, column_.index, part.end - part.first,
                     partial_.data() + part.first, partials_.data(), own + part.first);
        partial_ = std::vector<double>();
        partials_ = std::vector<double>();
        transfer_ = gather(column_, own_);
        break;
      }
      case 2:
        transfer_ = gather(group_, all_);
        break;
      default:
        break;
    }
  }

  Transport* transport_;
  int tag_, step_ = 0;
  T* x_;
  std::string what_;
  Peers group_, column_;
  Span all_, own_;
  std::vector<T> others_;                   // the other ranks' slices
  std::vector<double> partial_, partials_;  // the group's sum of the own slice; other groups'
  std::unique_ptr<Transfer> transfer_;
};

}  // namespace linea
