// Loops above the kernels: the pieces that their work is cut into, and who computes a piece.
#pragma once

#include <cstdint>
#include <functional>

namespace linea {

// body(item, thread) over [0, count) on the threads of a CPU, in shares (base/shares.h). Each thread has a
// copy of the caller's context, with one thread, for the time. The first exception reaches the caller.
void on_threads(int64_t count, const std::function<void(int64_t item, int thread)>& body);

// Items of kernels that give each thread `each` of them.
int64_t for_all_threads(int64_t each);

// Pieces of a loop. Either a thread of a CPU computes whole pieces, their kernels included, or, as on
// a GPU, one piece follows another and all threads share each kernel.
class Schedule {
 public:
  Schedule() = default;  // one piece

  // Pieces with sums of their own, which are added in order: `pieces` on a CPU at any number of
  // threads, as the bits depend on the cut; on a GPU one. A thread computes whole pieces if each gets
  // two.
  static Schedule of_sums(int64_t pieces);

  // Pieces of `items`, `size` of which fit in the cache of a core. `many_kernels`: a piece takes so many
  // kernels that threads do better with whole pieces, if there are more pieces than threads. Where all
  // share a piece, it has `size` items for each. Pieces with `sums`, which add to the same sums in
  // order, are shared, and cut alike at any number of threads.
  static Schedule in_cache(int64_t items, int64_t size, bool many_kernels, bool sums);

  // Pieces of `size` items, one after the other.
  static Schedule in_order(int64_t items, int64_t size) {
    return {(items + size - 1) / size, size, false};
  }

  // visit(piece, thread) for all pieces; thread < threads().
  template <typename Visit>
  void each(const Visit& visit) const {
    if (threads_ > 1) return on_threads(pieces_, visit);
    for (int64_t piece = 0; piece < pieces_; ++piece) visit(piece, 0);
  }
  int64_t pieces() const { return pieces_; }
  int64_t size() const { return size_; }    // items of a piece; the last may have fewer
  int threads() const { return threads_; }  // that visit: one where all share each piece

 private:
  Schedule(int64_t pieces, int64_t size, bool whole);
  int64_t pieces_ = 1, size_ = 1;
  int threads_ = 1;
};

}  // namespace linea
