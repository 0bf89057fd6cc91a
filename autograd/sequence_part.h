// A pass over a part of the positions of all sequences of a batch, where the parts before and after it are
// computed elsewhere: by other processes, or by this one at another time. An operation whose rows depend on
// earlier ones takes over what the part before this one has at its end, and hands its own on; in a
// backward pass gradients go the other way. What they send has a fixed size whatever the length: the
// states of linear attention, the last rows that a convolution reads, sums of gates.
//
// The passes of all parts make the same calls in the same order, and the bits of a part are those of one pass
// over whole sequences where its first position is a multiple of 256 (kPartUnit). Sources: Sun 2024,
// "Linear attention sequence parallelism" (LASP), the ring of states.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "base/scoped.h"
#include "tensor/tensor.h"

namespace linea {

// Chunks and segments of linear attention divide it.
inline constexpr int64_t kPartUnit = 256;

// Whether something is of a forward pass, from the part before, or of a backward pass, from the part after.
enum class PartPass : uint8_t { forward, back };

class SequencePart {
 public:
  // Positions [first, end) of `length`.
  SequencePart(int64_t first, int64_t end, int64_t length)
      : first_(first), end_(end), length_(length) {}
  virtual ~SequencePart() = default;
  SequencePart(const SequencePart&) = delete;
  SequencePart& operator=(const SequencePart&) = delete;

  int64_t first() const { return first_; }
  int64_t end() const { return end_; }
  int64_t length() const { return length_; }
  bool is_first() const { return first_ == 0; }
  bool is_last() const { return end_ == length_; }

  // Takes over what the neighbor sent in its call of the same number; without a neighbor on that
  // side `into` stays as it is. Waits for it. Contiguous tensors, of equal sizes on both sides.
  virtual void receive(const Tensor& into, PartPass pass) = 0;
  virtual void hand_on(const Tensor& from, PartPass pass) = 0;
  // Batch heads whose states are sent at a time: while a part computes some, the next one computes
  // those before them. The same for all parts.
  virtual int64_t tile(int64_t batch_heads) const { return batch_heads; }

  // Whether the states of so many batch heads, which add up, are combined by a scan: in log2 P rounds of
  // messages, where the parts would wait for one another longer than for one more pass over the keys.
  virtual bool scans(int64_t batch_heads) const { return (void)batch_heads, false; }
  // Sends bytes to the part `distance` after this one, in a backward pass before it, and returns those that
  // the part as far on the other side sent; nothing where there is none.
  virtual std::vector<uint8_t> shift(const std::vector<uint8_t>& bytes, int64_t distance,
                                     PartPass pass) {
    return (void)bytes, (void)distance, (void)pass, std::vector<uint8_t>();
  }
  virtual int64_t parts() const { return 1; }

  // The first token of each sequence in its whole row, i32 [B,N], which the embedding of classes reads;
  // how many tokens of each whole sequence exist, empty: all.
  Tensor first_tokens{};
  std::vector<int32_t> lengths{};

 private:
  int64_t first_, end_, length_;
};

// That of this thread; null: passes are over whole sequences.
SequencePart* sequence_part();
// While one lives, sequence_part() of this thread. It outlives the backward pass. Null: none.
struct UseSequencePart : Scoped<SequencePart*> {
  explicit UseSequencePart(SequencePart* part);
};

// States of a forward pass that this part took over, by the first batch head of their tile.
using TakenStates = std::map<int64_t, std::vector<Tensor>>;

// `running`: zeros, the state of some batch heads before the first position; null part: no effect.
// Where `taken` is not null, saves a copy of what was taken over for the backward pass.
void take_over(SequencePart* part, PartPass pass, const std::vector<Tensor>& running,
               TakenStates* taken = nullptr, int64_t first_bh = 0);
void hand_on(SequencePart* part, PartPass pass, const std::vector<Tensor>& running);
// ops::reverse_cumsum of x [...,N] along whole sequences.
Tensor sums_from_end(const Tensor& x, SequencePart* part);
// Copies the states that take_over saved; `running` stays as it is where there are none.
void restore(const TakenStates& taken, const std::vector<Tensor>& running, int64_t first_bh);

}  // namespace linea
